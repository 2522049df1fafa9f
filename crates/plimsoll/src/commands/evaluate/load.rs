//! Reads objects from files, and reports invalid ones with file, document and field.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::autoscaling::FleetAutoscaleReview;
use api::{Admission, Problem, Scope};
use apimachinery::offline::OfflineValidator;
use jiff::Timestamp;
use serde_json::Value;

use super::origin::{Fault, Origin};
use super::world::Object;
use crate::input::{self, Content, Entry};

/// Reads all files. Either every object is valid, or all problems come back.
pub(crate) fn files(paths: &[PathBuf], now: Timestamp) -> Result<Vec<Object>, Vec<Fault>> {
    let kinds = OfflineValidator::default();
    let mut loaded = Loaded { now, kinds, objects: Vec::new(), named: HashMap::new() };
    let mut faults = Vec::new();
    for path in paths {
        let file: Arc<Path> = path.as_path().into();
        input::read(path, &mut |entry| {
            let Entry { position, item, content } = entry;
            let origin = Origin { file: Arc::clone(&file), position, item: item.into() };
            let found = content.map_err(|problem| vec![problem]);
            if let Err(problems) = found.and_then(|content| loaded.add(content, &origin)) {
                faults.extend(origin.faults(problems));
            }
            ControlFlow::Continue(())
        });
    }
    if faults.is_empty() { Ok(loaded.objects) } else { Err(faults) }
}

/// Admits the inputs of a decision that was recorded at `at`, or returns all problems, by field of the Decision object.
pub(crate) fn inputs(
    values: &[Value],
    at: Timestamp,
    origin: &Origin,
) -> Result<Vec<Object>, Vec<Problem>> {
    let kinds = OfflineValidator::default();
    let mut loaded = Loaded { now: at, kinds, objects: Vec::new(), named: HashMap::new() };
    let mut problems = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let path = format!("spec.inputs[{index}]");
        if let Err(found) = loaded.add(Content::Object(value.clone()), origin) {
            problems.extend(api::prefixed(&path, found));
        }
    }
    if problems.is_empty() { Ok(loaded.objects) } else { Err(problems) }
}

/// The objects that have been read so far.
struct Loaded {
    now: Timestamp,
    kinds: OfflineValidator,
    objects: Vec<Object>,
    /// Where in `objects` the object of a group, kind, namespace and name is.
    named: HashMap<[String; 4], usize>,
}

/// An object that passed admission.
struct Admitted {
    kind: String,
    scope: Scope,
    value: Value,
}

impl Loaded {
    fn add(&mut self, content: Content, origin: &Origin) -> Result<(), Vec<Problem>> {
        match content {
            Content::Policy(value) => {
                self.objects.push(policy(value, self.now, origin.clone())?);
                Ok(())
            }
            Content::Object(value) => match self.admit(value)? {
                Some(admitted) => self.keep(admitted, origin).map_err(|problem| vec![problem]),
                None => Ok(()),
            },
        }
    }

    /// Checks an object as an API server would: one that has a `uid` counts as stored. One that no decision could mean
    /// comes back as `None`.
    fn admit(&self, mut value: Value) -> Result<Option<Admitted>, Vec<Problem>> {
        let (api_version, kind) = types(&value)?;
        if kind == "FleetAutoscaleReview" && matches!(api_version, None | Some(REVIEW)) {
            // What a webhook answers is no object of the API, and needs no version.
            FleetAutoscaleReview::read(&value)?;
            return Ok(Some(Admitted { kind: kind.to_owned(), scope: Scope::Namespaced, value }));
        }
        let ours = api::find(None, kind);
        let Some(api_version) = api_version else {
            let own = ours.map(|ours| format!("{}/{}", ours.group, ours.version));
            return match own.filter(|_| ours.is_some_and(|ours| ours.crd.is_none())) {
                // What is never stored is a request, and needs no version.
                Some(own) => {
                    value["apiVersion"] = own.into();
                    self.admit(value)
                }
                None => Err(unversioned(ours)),
            };
        };
        let kind = kind.to_owned();
        let known = api::find(Some(api_version), &kind);
        if known.is_none() {
            api::nodes::check(&value)?;
        }
        let checked = self.kinds.check(&value);
        if let Some(known) = known {
            let stored = value["metadata"]["uid"].is_string().then(|| value.clone());
            let admission = Admission { old: stored.as_ref(), now: self.now };
            merged((known.admit)(&mut value, &admission), checked.err())?;
            self.kinds.check_admitted(&value)?;
            return Ok(Some(Admitted { kind, scope: known.scope, value }));
        }
        let scope = match checked? {
            Some(scope) => scope,
            // A custom kind with the name of one of Kubernetes' kinds would be mistaken for it.
            None if self.kinds.has_kind(&kind) => return Ok(None),
            None => Scope::Namespaced,
        };
        Ok(Some(Admitted { kind, scope, value }))
    }

    /// Keeps an object. The same object twice is one; two that differ cannot both be there.
    fn keep(&mut self, admitted: Admitted, origin: &Origin) -> Result<(), Problem> {
        let Admitted { kind, scope, value } = admitted;
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let is_stored = !api_version.is_empty()
            && api::find(Some(api_version), &kind).is_none_or(|k| k.crd.is_some());
        let object = Object::new(kind, scope, value, origin.clone());
        if object.name.is_empty() || !is_stored {
            self.objects.push(object);
            return Ok(());
        }
        let namespace = object.namespace.clone().unwrap_or_default();
        let key = [group, object.kind.clone(), namespace, object.name.clone()];
        match self.named.entry(key) {
            Slot::Vacant(slot) => {
                slot.insert(self.objects.len());
                self.objects.push(object);
                Ok(())
            }
            Slot::Occupied(slot) if self.objects[*slot.get()].value() == object.value() => Ok(()),
            Slot::Occupied(_) => {
                let message = format!("there is another {object}, which differs from this one");
                Err(Problem::new("metadata.name", message))
            }
        }
    }
}

/// The version of the reviews that webhooks of autoscalers return.
const REVIEW: &str = "autoscaling.agones.dev/v1";

/// Returns the `apiVersion`, if there is one, and the `kind` of an object.
fn types(value: &Value) -> Result<(Option<&str>, &str), Vec<Problem>> {
    if !value.is_object() {
        return Err(refusal("", "expected an object with `apiVersion`, `kind` and `metadata`"));
    }
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let Some(kind) = text("kind") else {
        return Err(refusal("kind", "required: what kind of object this is"));
    };
    let api_version = text("apiVersion");
    if api_version.is_none() && !matches!(&value["apiVersion"], Value::Null | Value::String(_)) {
        return Err(refusal("apiVersion", "expected text such as `v1` or `apps/v1`"));
    }
    Ok((api_version, kind))
}

fn unversioned(ours: Option<&api::Kind>) -> Vec<Problem> {
    let example = ours.map(|ours| format!("{}/{}", ours.group, ours.version));
    let example = example.as_deref().unwrap_or("v1");
    refusal("apiVersion", format!("required: the version, such as `{example}`"))
}

fn refusal(path: &str, message: impl Into<String>) -> Vec<Problem> {
    vec![Problem::new(path, message)]
}

/// Merges the problems that admission and the schema found; if both report a field, the message of admission is used.
fn merged(
    admitted: Result<(), Vec<Problem>>,
    checked: Option<Vec<Problem>>,
) -> Result<(), Vec<Problem>> {
    let mut problems = admitted.err().unwrap_or_default();
    for problem in checked.into_iter().flatten() {
        if problems.iter().all(|known| known.path != problem.path) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Admits a policy of a Nomad file. One that is not enabled is not checked, as there.
fn policy(mut value: Value, now: Timestamp, origin: Origin) -> Result<Object, Vec<Problem>> {
    let kind = "ScalingPolicy";
    if value["spec"]["enabled"] == Value::Bool(true)
        && let Some(known) = api::find(None, kind)
    {
        (known.admit)(&mut value, &Admission { old: None, now })?;
    }
    Ok(Object::new(kind.to_owned(), Scope::Namespaced, value, origin))
}
