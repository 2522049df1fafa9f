//! The objects that were read, and how to find one among them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use api::{Problem, Scope};
use control::scaling_policy::target::Getter;
use control::{Lister, Unreadable};
use jiff::Timestamp;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::compact::Compact;
use super::fleets::Servers;
use super::origin::Origin;
use super::policies::ServicePolicy;

/// Everything a decision may look at.
pub(crate) struct World {
    /// The objects, in the order in which they were read; each has passed admission.
    pub(crate) objects: Vec<Object>,
    /// The moment at which to decide.
    pub(crate) now: Timestamp,
    /// The present size of the target, if it was given on the command line.
    pub(crate) count: Option<u32>,
    /// The game servers, read when the first decision about fleets needs them.
    pub(crate) servers: OnceCell<Result<Servers, Unreadable>>,
    /// The AutoScalePolicies, read when the first decision about one needs them.
    pub(crate) service_policies: OnceCell<Result<Vec<ServicePolicy>, Unreadable>>,
}

impl World {
    pub(crate) fn new(objects: Vec<Object>, now: Timestamp, count: Option<u32>) -> Self {
        let (servers, service_policies) = (OnceCell::new(), OnceCell::new());
        Self { objects, now, count, servers, service_policies }
    }

    /// Returns the objects of one kind.
    pub(crate) fn of(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |o| o.kind == kind)
    }

    /// Says on standard error that nothing can be decided about an object, though it is valid.
    pub(crate) fn only_validated(&self, object: &Object, why: &str) {
        eprintln!("{object}: only validated, since {why}");
    }

    /// Finds an object by kind, namespace and name.
    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        self.of(kind).find(|o| o.namespace.as_deref().unwrap_or("") == namespace && o.name == name)
    }

    /// Says where in the files the problems of an object are that cannot be read.
    pub(crate) fn faults(&self, unreadable: &Unreadable) -> Vec<String> {
        let Unreadable { kind, namespace, name, problems } = unreadable;
        let is_it = |o: &&Object| {
            let its_own = o.namespace.as_deref().unwrap_or_default();
            o.name == *name && (namespace.is_empty() || its_own == namespace)
        };
        match self.of(kind).find(is_it) {
            Some(o) => o.origin.faults(problems.clone()).map(|fault| fault.to_string()).collect(),
            None => vec![unreadable.to_string()],
        }
    }
}

impl<K> Lister<K> for World
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    type Item = K;

    fn list(&self, namespace: Option<&str>) -> impl Iterator<Item = Result<K, Unreadable>> {
        let kind = K::kind(&());
        let is_there =
            move |o: &&Object| namespace.is_none_or(|n| o.namespace.as_deref() == Some(n));
        let of_kind = self.objects.iter().filter(move |o| o.kind == kind);
        of_kind.filter(is_there).map(Object::read)
    }
}

impl Getter for World {
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.find(kind, namespace, name).map(|object| object.value().into_owned())
    }
}

/// One object out of a file.
pub(crate) struct Object {
    pub(crate) kind: String,
    /// Absent for a kind that lives in no namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The whole object, after admission.
    content: Compact,
    origin: Origin,
}

impl Object {
    /// Names an admitted object by its metadata; one of a kind that lives in namespaces is in `default` unless it says so.
    pub(crate) fn new(kind: String, scope: Scope, value: Value, origin: Origin) -> Self {
        let text = |field: &str| value["metadata"][field].as_str().filter(|text| !text.is_empty());
        let name = text("name").unwrap_or_default().to_owned();
        let namespace = text("namespace").unwrap_or("default").to_owned();
        let namespace = (scope == Scope::Namespaced).then_some(namespace);
        Self { kind, namespace, name, content: Compact::new(value), origin }
    }

    /// Returns the whole object, which is parsed each time.
    pub(crate) fn value(&self) -> Cow<'_, Value> {
        self.content.value()
    }

    /// Reads the object as its type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Unreadable> {
        self.content.read().map_err(|problems| self.unreadable(problems))
    }

    /// Says what of the object cannot be read.
    pub(crate) fn unreadable(&self, problems: Vec<Problem>) -> Unreadable {
        Unreadable {
            kind: self.kind.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone(),
            problems,
        }
    }

    /// Names the object, as `{"kind", "namespace", "name"}`.
    pub(crate) fn reference(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind".to_owned(), self.kind.clone().into());
        if let Some(namespace) = &self.namespace {
            out.insert("namespace".to_owned(), namespace.clone().into());
        }
        out.insert("name".to_owned(), self.name.clone().into());
        out.into()
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
