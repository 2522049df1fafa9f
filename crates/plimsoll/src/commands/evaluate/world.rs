//! The objects that were read, and how to find one among them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use api::plimsoll::DecisionSpec;
use api::{Problem, Scope};
use control::scaling_policy::target::Getter;
use control::{Lister, ObjectName, Unreadable};
use jiff::Timestamp;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::compact::Compact;
use super::fleets::Servers;
use super::origin::Origin;
use super::policies::ServicePolicy;

/// Everything that a decision can read.
pub(crate) struct World {
    /// The objects, in the order in which they were read; each has passed admission.
    pub(crate) objects: Vec<Object>,
    /// The moment at which to decide.
    pub(crate) now: Timestamp,
    /// Whether these are the inputs of a recorded decision.
    pub(crate) is_replay: bool,
    /// The present size of the target, if it was given on the command line or recorded.
    pub(crate) count: Option<u32>,
    /// The other autoscaler that sizes the target of the policy, if one is recorded.
    pub(crate) shared_with: Option<String>,
    /// The game servers, read when the first decision about fleets needs them.
    pub(crate) servers: OnceCell<Result<Servers, Unreadable>>,
    /// The AutoScalePolicies, read when the first decision about one needs them.
    pub(crate) service_policies: OnceCell<Result<Vec<ServicePolicy>, Unreadable>>,
}

impl World {
    pub(crate) fn new(objects: Vec<Object>, now: Timestamp, count: Option<u32>) -> Self {
        let (servers, service_policies) = (OnceCell::new(), OnceCell::new());
        let shared_with = None;
        Self { objects, now, is_replay: false, count, shared_with, servers, service_policies }
    }

    /// Returns the world of a recorded decision. The size of a policy's target, and who else sizes it, are in the decision.
    pub(crate) fn replay(inputs: Vec<Object>, recorded: &DecisionSpec) -> Self {
        let count = recorded.decision.get("from").and_then(Value::as_u64);
        let count = count.and_then(|count| u32::try_from(count).ok());
        let shared_with = recorded.decision.get("sharedWith").and_then(Value::as_str);
        let shared_with = shared_with.map(str::to_owned);
        Self { is_replay: true, shared_with, ..Self::new(inputs, recorded.at.0, count) }
    }

    /// Returns the objects of one kind.
    pub(crate) fn of(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |o| o.kind == kind)
    }

    /// Reports on standard error that a valid object cannot be evaluated.
    pub(crate) fn only_validated(&self, object: &Object, why: &str) {
        eprintln!("{object}: only validated, since {why}");
    }

    /// Finds an object by kind, namespace and name.
    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        self.of(kind).find(|o| o.namespace.as_deref().unwrap_or("") == namespace && o.name == name)
    }

    /// Returns the problems of an unreadable object, with their positions in the files.
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
    /// Absent for a kind that is cluster-scoped.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The whole object, after admission.
    content: Compact,
    /// The origin of the object.
    pub(crate) origin: Origin,
}

impl Object {
    /// Names an admitted object by its metadata; a namespaced object without a namespace is in `default`.
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

    /// Returns the error for an object that cannot be read.
    pub(crate) fn unreadable(&self, problems: Vec<Problem>) -> Unreadable {
        Unreadable {
            kind: self.kind.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone(),
            problems,
        }
    }

    /// Returns the kind, namespace and name.
    pub(crate) fn object_name(&self) -> ObjectName {
        let (kind, name) = (self.kind.clone(), self.name.clone());
        ObjectName { kind, namespace: self.namespace.clone(), name }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object_name().fmt(f)
    }
}
