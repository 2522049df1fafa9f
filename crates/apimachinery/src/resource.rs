//! Which kinds are served, under which names, and what can be done with them?
//!
//! One [`Resource`] per served group, version and plural. The built-in ones are there from the start; a
//! CustomResourceDefinition adds its own and takes them away again.

mod builtin;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use crate::crd::Custom;
use crate::schema::{Shape, Types};
use crate::table::Columns;

/// The verbs of a collection that is stored, as discovery lists them.
pub const STORED: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A kind as it is served at one group and version.
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The name in URLs.
    pub plural: String,
    /// The name of one, in lower case.
    pub singular: String,
    /// The name in `kind:`.
    pub kind: String,
    /// The name in `kind:` of a list.
    pub list_kind: String,
    /// What kubectl takes instead of the plural.
    pub short_names: Vec<String>,
    /// The groups of resources, such as `all`, that kubectl lists together.
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: &'static [&'static str],
    /// The parts of an object that have an address of their own.
    pub subresources: Vec<Subresource>,
    /// The collection in the store. Versions of one kind share it.
    pub storage: Arc<str>,
    /// Where the kind comes from.
    pub origin: Origin,
    /// The shape of a custom kind.
    pub types: Option<Arc<Types>>,
    /// What tables show of it.
    pub columns: Columns,
    /// The fields of a custom kind that can be selected by, as dotted paths without a leading dot.
    pub selectable: Vec<String>,
    /// What the write path knows of a custom kind.
    pub custom: Option<Arc<Custom>>,
    /// The JSON that opens an object: `{"kind":"Pod","apiVersion":"v1","metadata":{`.
    pub opening: String,
}

/// Where a kind comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is one of Kubernetes' own.
    BuiltIn,
    /// A CustomResourceDefinition made it.
    Custom,
}

/// A part of an object, or an action on it, with an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    Status,
    Scale,
    Binding,
    Eviction,
    Finalize,
    Approval,
    Token,
    EphemeralContainers,
    Resize,
    Log,
}

impl Subresource {
    const ALL: [Self; 10] = [
        Self::Status,
        Self::Scale,
        Self::Binding,
        Self::Eviction,
        Self::Finalize,
        Self::Approval,
        Self::Token,
        Self::EphemeralContainers,
        Self::Resize,
        Self::Log,
    ];

    /// Gives the name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::Token => "token",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Log => "log",
        }
    }

    /// Reads the name in URLs.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Gives what can be done with it, as discovery lists it.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Binding | Self::Eviction | Self::Token => &["create"],
            Self::Finalize => &["update"],
            Self::Log => &["get"],
            Self::Status
            | Self::Scale
            | Self::Approval
            | Self::EphemeralContainers
            | Self::Resize => &["get", "patch", "update"],
        }
    }
}

impl Resource {
    /// Gives `apiVersion` as objects write it.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Gives the plural with its group, as messages name it: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Tells whether an object has this part.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Tells whether this is a built-in kind of that name.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.origin == Origin::BuiltIn && self.group == group && self.kind == kind
    }

    /// Gives the shape of objects; without one anything goes.
    pub fn shape(&self) -> Option<Shape<'_>> {
        match self.origin {
            Origin::BuiltIn => Types::builtin().kind(&self.group, &self.version, &self.kind),
            Origin::Custom => self.types.as_ref()?.root(),
        }
    }

    /// Tells whether objects of it are kept.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"list")
    }

    /// Gives the key of an object in the store: sorted by namespace, then by name.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        match namespace {
            Some(namespace) if self.namespaced => [namespace, "/", name].concat(),
            _ => name.to_owned(),
        }
    }
}

/// Splits a key into namespace and name.
pub fn split_key(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}

/// Joins a group and a version as objects write them.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { [group, "/", version].concat() }
}

/// Joins a plural or a kind and its group as messages write them.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Gives the JSON that opens an object of a kind, up to its first metadata field.
pub fn opening(api_version: &str, kind: &str) -> String {
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"#)
}

type GroupVersion = (String, String);

/// Every resource that is served now. A copy stays as it was when it was taken.
#[derive(Clone, Default)]
pub struct Served(BTreeMap<GroupVersion, BTreeMap<String, Arc<Resource>>>);

impl Served {
    /// Finds a resource by its address.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.0.get(&(group.to_owned(), version.to_owned()))?.get(plural)
    }

    /// Finds a resource by what an object says of itself.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resources = self.0.get(&(group.to_owned(), version.to_owned()))?;
        resources.values().find(|r| r.kind == kind)
    }

    /// Lists the groups and versions with their resources, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupVersion, Vec<&Arc<Resource>>)> {
        self.0.iter().map(|(at, resources)| (at, resources.values().collect()))
    }

    /// Adds a resource, in place of one with the same address.
    pub fn add(&mut self, resource: Resource) {
        let at = (resource.group.clone(), resource.version.clone());
        self.0.entry(at).or_default().insert(resource.plural.clone(), Arc::new(resource));
    }

    /// Takes away every resource that a CustomResourceDefinition made.
    pub fn remove_custom(&mut self) {
        for resources in self.0.values_mut() {
            resources.retain(|_, r| r.origin == Origin::BuiltIn);
        }
        self.0.retain(|_, resources| !resources.is_empty());
    }
}

/// The resources that are served, changing as CustomResourceDefinitions come and go.
pub struct Registry(RwLock<Arc<Served>>);

impl Registry {
    /// Starts with the built-in kinds.
    pub fn built_in() -> Self {
        let mut served = Served::default();
        builtin::resources().for_each(|r| served.add(r));
        Self(RwLock::new(Arc::new(served)))
    }

    /// Gives what is served at this moment.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.0.read().expect("no one panics while holding it"))
    }

    /// Changes what is served, for everyone at once.
    pub fn change(&self, change: impl FnOnce(&mut Served)) {
        let mut now = self.0.write().expect("no one panics while holding it");
        let mut next = Served::clone(&now);
        change(&mut next);
        *now = Arc::new(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_address_and_by_what_objects_say() {
        let served = Registry::built_in().served();
        let deployment = served.find("apps", "v1", "deployments").unwrap();
        assert_eq!(deployment.qualified(), "deployments.apps");
        assert_eq!(deployment.key(Some("a"), "b"), "a/b");
        assert_eq!(served.find_kind("v1", "Node").unwrap().key(None, "b"), "b");
        assert!(served.find("apps", "v1", "pods").is_none());
    }

    #[test]
    fn versions_of_one_kind_share_their_storage() {
        let served = Registry::built_in().served();
        let storage = |g, v, p| Arc::clone(&served.find(g, v, p).unwrap().storage);
        let hpa = "horizontalpodautoscalers";
        assert_eq!(storage("autoscaling", "v1", hpa), storage("autoscaling", "v2", hpa));
        assert_eq!(storage("", "v1", "events"), storage("events.k8s.io", "v1", "events"));
    }
}
