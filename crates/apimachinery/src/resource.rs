//! The served resources, their names and their verbs.
//!
//! There is one [`Resource`] per served group, version and plural. The built-in ones are static; CustomResourceDefinitions
//! add and remove theirs.

mod builtin;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use crate::crd::CustomVersion;
use crate::schema::{Shape, Types};
use crate::table::Columns;

/// The verbs of a stored collection, as discovery lists them.
pub const STORED_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// A kind as served in one group and version.
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The name in URLs.
    pub plural: String,
    /// The singular name, in lower case.
    pub singular: String,
    /// The name in `kind:`.
    pub kind: String,
    /// The name in `kind:` of a list.
    pub list_kind: String,
    /// The short names that kubectl accepts.
    pub short_names: Vec<String>,
    /// The categories, such as `all`, that kubectl lists together.
    pub categories: Vec<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: &'static [&'static str],
    /// The subresources.
    pub subresources: Vec<Subresource>,
    /// The collection in the store. Versions of one kind share it.
    pub storage: Arc<str>,
    /// The origin of the kind.
    pub origin: Origin,
    /// The shape of a custom kind.
    pub types: Option<Arc<Types>>,
    /// The columns of its tables.
    pub columns: Columns,
    /// The selectable fields of a custom kind, as dotted paths without a leading dot.
    pub selectable: Vec<String>,
    /// The version's schema and settings, for a custom kind.
    pub custom: Option<Arc<CustomVersion>>,
    /// How writes of the kind differ from those of others.
    pub rules: WriteRules,
    /// The effect of creating an object, for a kind whose objects are not stored.
    pub action: Option<Action>,
    /// The warning that clients of a deprecated built-in kind get.
    pub deprecation: Option<&'static str>,
    /// The JSON prefix of each object: `{"kind":"Pod","apiVersion":"v1","metadata":{`.
    pub json_prefix: String,
}

/// The origin of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// One of Kubernetes' own kinds.
    BuiltIn,
    /// Defined by a CustomResourceDefinition.
    Custom,
}

/// How writes and deletions of a kind differ from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRules {
    /// An update may leave out the version that it was made from.
    pub unconditional_update: bool,
    /// An update creates an object that does not exist.
    pub create_on_update: bool,
    /// A deletion returns the object instead of a success status.
    pub returns_deleted: bool,
    /// A deletion follows its propagation policy.
    pub propagates_deletion: bool,
    /// How objects are converted to the stored version, where its fields differ.
    pub conversion: Option<Conversion>,
    /// When a deleted object is removed.
    pub removal: Removal,
    /// A deletion leaves the dependents as orphans, unless the request or the object has another policy.
    pub orphans_dependents: bool,
    /// A finalizer that a deletion adds.
    pub finalizer: Option<&'static str>,
    /// Objects define other kinds: they are CustomResourceDefinitions.
    pub defines_kinds: bool,
    /// Objects get addresses and node ports that no other object has.
    pub has_addresses: bool,
    /// Objects get the priority of a PriorityClass, and the admission plugins see updates as well.
    pub has_priority: bool,
}

impl WriteRules {
    /// The rules of most built-in kinds.
    pub(crate) const BUILT_IN: Self = Self {
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        propagates_deletion: true,
        conversion: None,
        removal: Removal::AtOnce,
        orphans_dependents: false,
        finalizer: None,
        defines_kinds: false,
        has_addresses: false,
        has_priority: false,
    };

    /// The rules of custom kinds.
    pub(crate) const CUSTOM: Self = Self { unconditional_update: false, ..Self::BUILT_IN };
}

/// When a deleted object is removed, once it has no finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// At once.
    AtOnce,
    /// After the grace period of a pod.
    AfterGracePeriod,
    /// When its `spec.finalizers` are empty; until then its phase is `Terminating`.
    WhenFinalized,
}

/// The effect of creating an object of a kind whose objects are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Binds a pod to a node.
    Bind,
    /// Answers a review of users and their access.
    Review(Review),
}

/// The subject of a review of users and their access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// The user of a token.
    Token,
    /// The user who sends the request.
    Caller,
    /// The rules for the user who sends the request.
    CallerRules,
    /// Whether the user who sends the request may do something.
    CallerAccess,
    /// Whether another user may do something.
    UserAccess,
}

/// A conversion between two versions of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// HorizontalPodAutoscalers of `autoscaling/v1`, stored as `autoscaling/v2`.
    Autoscaler,
    /// Events of `events.k8s.io`, stored as those of the core group.
    Event,
}

impl Conversion {
    /// Returns the group of the stored version, which errors of validation name.
    pub fn stored_group(self) -> &'static str {
        match self {
            Self::Autoscaler => "autoscaling",
            Self::Event => "",
        }
    }
}

/// A subresource: a part of an object, or an action on it, with its own URL.
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
    Exec,
    Attach,
    PortForward,
}

impl Subresource {
    const ALL: [Self; 13] = [
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
        Self::Exec,
        Self::Attach,
        Self::PortForward,
    ];

    /// Returns the name in URLs.
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
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }

    /// Parses the name in URLs.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Whether requests connect to it, instead of reading or writing it.
    pub fn is_connection(self) -> bool {
        matches!(self, Self::Exec | Self::Attach | Self::PortForward)
    }

    /// Returns the verbs, as discovery lists them.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Binding | Self::Eviction | Self::Token => &["create"],
            Self::Finalize => &["update"],
            Self::Log => &["get"],
            Self::Exec | Self::Attach | Self::PortForward => &["create", "get"],
            Self::Status
            | Self::Scale
            | Self::Approval
            | Self::EphemeralContainers
            | Self::Resize => &["get", "patch", "update"],
        }
    }
}

impl Resource {
    /// Returns the `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns the plural with its group, as messages name it: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Returns whether the resource has this subresource.
    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Returns whether this is the built-in kind with that name.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.origin == Origin::BuiltIn && self.group == group && self.kind == kind
    }

    /// Returns the shape of objects; without one, any object is valid.
    pub fn shape(&self) -> Option<Shape<'_>> {
        match self.origin {
            Origin::BuiltIn => Types::builtin().kind(&self.group, &self.version, &self.kind),
            Origin::Custom => self.types.as_ref()?.root(),
        }
    }

    /// Returns whether its objects are stored.
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"list")
    }

    /// Returns the key of an object in the store: sorted by namespace, then by name.
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

/// Joins a group and a version as in `apiVersion`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { [group, "/", version].concat() }
}

/// Joins a plural or a kind and its group as in messages.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Returns the JSON prefix of an object of a kind, up to its first metadata field.
pub fn json_prefix(api_version: &str, kind: &str) -> String {
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"#)
}

type GroupVersion = (String, String);

/// All resources served at one moment.
#[derive(Clone, Default)]
pub struct ServedResources(BTreeMap<GroupVersion, BTreeMap<String, Arc<Resource>>>);

impl ServedResources {
    /// Finds a resource by group, version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.0.get(&(group.to_owned(), version.to_owned()))?.get(plural)
    }

    /// Finds a resource by an object's `apiVersion` and `kind`.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resources = self.0.get(&(group.to_owned(), version.to_owned()))?;
        resources.values().find(|r| r.kind == kind)
    }

    /// Iterates over groups and versions with their resources, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupVersion, Vec<&Arc<Resource>>)> {
        self.0.iter().map(|(at, resources)| (at, resources.values().collect()))
    }

    /// Adds a resource, replacing one with the same group, version and plural.
    pub fn add(&mut self, resource: Resource) {
        let at = (resource.group.clone(), resource.version.clone());
        self.0.entry(at).or_default().insert(resource.plural.clone(), Arc::new(resource));
    }

    /// Removes every resource that a CustomResourceDefinition added.
    pub fn remove_custom(&mut self) {
        for resources in self.0.values_mut() {
            resources.retain(|_, r| r.origin == Origin::BuiltIn);
        }
        self.0.retain(|_, resources| !resources.is_empty());
    }
}

/// The served resources, which change with the CustomResourceDefinitions.
pub struct Registry(RwLock<Arc<ServedResources>>);

impl Registry {
    /// Creates a registry of the built-in kinds.
    pub fn built_in() -> Self {
        let mut served = ServedResources::default();
        builtin::resources().for_each(|r| served.add(r));
        Self(RwLock::new(Arc::new(served)))
    }

    /// Returns a snapshot of the served resources.
    pub fn served(&self) -> Arc<ServedResources> {
        Arc::clone(&self.0.read().expect("no thread panics while holding the lock"))
    }

    /// Replaces the served resources atomically.
    pub fn change(&self, change: impl FnOnce(&mut ServedResources)) {
        let mut now = self.0.write().expect("no thread panics while holding the lock");
        let mut next = ServedResources::clone(&now);
        change(&mut next);
        *now = Arc::new(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_found_by_plural_and_by_kind() {
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
