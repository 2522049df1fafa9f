//! Validates objects without a server, as `kubectl --validate=strict` and the API server's write path would.

use std::sync::{Arc, OnceLock};

use api::{Problem, Scope};
use serde_json::Value;

use crate::builtin::field::{CauseType, FieldError, Path};
use crate::builtin::{self, BuiltIn, NameRule};
use crate::crd;
use crate::resource::{Origin, Registry, Resource, ServedResources};
use crate::schema::decode::{self, Decoded, Error};
use crate::schema::{Shape, ValueType};

/// The kinds that our API server serves: Kubernetes' own and Plimsoll's.
pub struct OfflineValidator {
    built_in: Arc<ServedResources>,
    /// Built when the first object of a kind is checked.
    ours: Vec<(&'static api::Kind, OnceLock<Option<Resource>>)>,
}

impl Default for OfflineValidator {
    fn default() -> Self {
        let ours = api::KINDS.iter().map(|kind| (*kind, OnceLock::new())).collect();
        Self { built_in: Registry::built_in().served(), ours }
    }
}

impl OfflineValidator {
    /// Validates an object with `apiVersion` and `kind`, and returns whether its kind is namespaced. Kinds that others define
    /// are unknown: `None`. Rules that only the admission of our own kinds knows are not checked.
    pub fn check(&self, object: &Value) -> Result<Option<Scope>, Vec<Problem>> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if let Some(resource) = self.built_in.find_kind(api_version, kind) {
            check(resource, object)?;
            let scope = if resource.namespaced { Scope::Namespaced } else { Scope::Cluster };
            return Ok(Some(scope));
        }
        let is_it = |ours: &api::Kind| ours.kind == kind && own_version(ours) == api_version;
        if let Some((ours, resource)) = self.ours.iter().find(|(ours, _)| is_it(ours)) {
            if let Some(resource) = resource.get_or_init(|| defined(ours)) {
                check(resource, object)?;
            }
            return Ok(Some(ours.scope));
        }
        match self.not_served(api_version, kind) {
            Some(problem) => Err(vec![problem]),
            None => Ok(None),
        }
    }

    /// Validates an object of one of our own kinds against its schema, after its admission has brought it into the stored form. Of an object
    /// that has a `uid`, and of a status, required fields may be absent: files often omit those that no decision needs.
    pub fn check_admitted(&self, object: &Value) -> Result<(), Vec<Problem>> {
        let is_it = |ours: &api::Kind| {
            object["kind"] == ours.kind && object["apiVersion"] == own_version(ours)
        };
        let known = self.ours.iter().find(|(ours, _)| is_it(ours));
        let resource =
            known.and_then(|(ours, resource)| resource.get_or_init(|| defined(ours)).as_ref());
        let Some(custom) = resource.and_then(|resource| resource.custom.as_ref()) else {
            return Ok(());
        };
        let normal = custom.normalize(object.clone(), None);
        let normal = normal.map_err(|err| vec![type_mismatch(&err)])?.value;
        let is_stored = object["metadata"]["uid"].is_string();
        let mut errors = custom.check(&normal, None);
        errors.retain(|error| {
            !is_absent(error) || (!is_stored && !error.field.starts_with("status"))
        });
        let problems: Vec<Problem> = errors.into_iter().map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Returns whether any served group has a kind of this name.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.all().any(|(_, known)| known == kind)
    }

    fn all(&self) -> impl Iterator<Item = (String, &str)> {
        let built_in = self.built_in.iter().flat_map(|(_, resources)| resources);
        let built_in = built_in.map(|resource| (resource.api_version(), resource.kind.as_str()));
        built_in.chain(self.ours.iter().map(|(ours, _)| (own_version(ours), ours.kind)))
    }

    /// Explains why a kind cannot exist. A group without a dot belongs to Kubernetes, and our groups have only our kinds; other
    /// groups may define any kind.
    fn not_served(&self, api_version: &str, kind: &str) -> Option<Problem> {
        let group_of = |api_version: &str| match api_version.split_once('/') {
            Some((group, _)) => group.to_owned(),
            None => String::new(),
        };
        let group = group_of(api_version);
        let is_ours = |group: &str| api::KINDS.iter().any(|kind| kind.group == group);
        let versions: Vec<String> = self
            .all()
            .filter(|(at, known)| {
                *known == kind && (group_of(at) == group || is_ours(&group_of(at)))
            })
            .map(|(at, _)| at)
            .collect();
        if !versions.is_empty() {
            let versions = versions.join(" or ");
            let message = format!("`{api_version}` has no {kind}; expected {versions}");
            return Some(Problem::new("apiVersion", message));
        }
        if group.contains('.') && !is_ours(&group) {
            return None;
        }
        let near = self.all().filter(|(at, _)| at == api_version).map(|(_, known)| known);
        let near = near.map(|known| (strsim::damerau_levenshtein(known, kind), known)).min();
        let hint = match near.filter(|(distance, _)| *distance <= 3) {
            Some((_, known)) => format!(", did you mean `{known}`?"),
            None => String::new(),
        };
        Some(Problem::new("kind", format!("`{api_version}` has no kind `{kind}`{hint}")))
    }
}

fn own_version(kind: &api::Kind) -> String {
    format!("{}/{}", kind.group, kind.version)
}

/// Builds the resource that one of our kinds is served as; a kind that is never stored has none.
fn defined(kind: &api::Kind) -> Option<Resource> {
    let crd = serde_json::to_value(kind.crd?()).unwrap_or_default();
    crd::resources(&crd).into_iter().next()
}

fn check(resource: &Resource, object: &Value) -> Result<(), Vec<Problem>> {
    let decoded = match &resource.custom {
        Some(custom) => custom.normalize(object.clone(), None),
        None => decode::value(object, resource.shape()),
    };
    let Decoded { mut value, strict } = decoded.map_err(|err| vec![type_mismatch(&err)])?;
    if !strict.is_empty() {
        return Err(strict.iter().map(|note| unknown(note)).collect());
    }
    let is_stored = object["metadata"]["uid"].is_string();
    complete_metadata(&mut value["metadata"], resource.namespaced);
    let errors = match resource.origin {
        Origin::BuiltIn => built_in(resource, value, is_stored),
        Origin::Custom => {
            let mut errors = Vec::new();
            let (rule, path) = (NameRule::Subdomain, Path::new("metadata"));
            let (meta, namespaced) = (&value["metadata"], resource.namespaced);
            builtin::validate_meta(meta, namespaced, rule, &path, &mut errors);
            errors
        }
    };
    let mut problems: Vec<Problem> = errors.into_iter().map(problem).collect();
    if let (Origin::BuiltIn, Some(shape)) = (&resource.origin, resource.shape()) {
        unsupported(shape, object, "", &mut problems);
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Completes metadata as a request would: with the namespace and the rest of a generated name.
fn complete_metadata(metadata: &mut Value, namespaced: bool) {
    let is_empty = |value: &Value| value.as_str().unwrap_or_default().is_empty();
    if namespaced && is_empty(&metadata["namespace"]) {
        metadata["namespace"] = "default".into();
    }
    if is_empty(&metadata["name"]) && !is_empty(&metadata["generateName"]) {
        let base = metadata["generateName"].as_str().unwrap_or_default();
        metadata["name"] = format!("{base}00000").into();
    }
}

fn built_in(resource: &Resource, mut value: Value, is_stored: bool) -> Vec<FieldError> {
    let kind = BuiltIn { group: &resource.group, kind: &resource.kind };
    builtin::default(kind, resource.shape(), &mut value);
    if is_stored {
        // Files often omit what no decision needs: of a status, and of all kinds but pods.
        let is_complete =
            |error: &FieldError| resource.kind == "Pod" && !error.field.starts_with("status");
        let mut errors = builtin::validate_stored(kind, resource.namespaced, &value);
        errors.retain(|error| !is_absent(error) || is_complete(error));
        return errors;
    }
    // A job selects its pods by the uid that the API server would assign.
    value["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    builtin::prepare_create(kind, &mut value, "");
    builtin::validate_create(kind, resource.namespaced, &value)
}

fn is_absent(error: &FieldError) -> bool {
    error.cause_type == CauseType::Required || error.value == "null"
}

fn problem(error: FieldError) -> Problem {
    let message = error.body();
    Problem::of(error.cause_type, error.field, message)
}

/// Parses `unknown field "spec.foo"`, a strict decoding error.
fn unknown(note: &str) -> Problem {
    match note
        .split_once(" field \"")
        .and_then(|(what, path)| Some((what, path.strip_suffix('"')?)))
    {
        Some((what, path)) => Problem::new(path, format!("{what} field")),
        None => Problem::new("", note),
    }
}

/// Extracts the field from Go's message about a wrong type.
fn type_mismatch(err: &Error) -> Problem {
    let text = err.to_string();
    let field =
        text.split_once("Go struct field ").and_then(|(_, rest)| rest.split_once(" of type"));
    let path = field.and_then(|(field, _)| field.split_once('.')).map(|(_, path)| path.to_owned());
    let message = text.strip_prefix("json: ").unwrap_or(&text).to_owned();
    Problem::new(path.unwrap_or_default(), message)
}

/// Reports every value that is not one of its field's known values, unless it is reported already. The API server validates a
/// status less strictly, but only controllers write it there.
fn unsupported(shape: Shape<'_>, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    let below = |name: &str| {
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    };
    match value {
        Value::Object(map) if shape.value_type() == ValueType::Object => {
            for (name, value) in map {
                if let Some(field) = shape.entry(name) {
                    unsupported(field, value, &below(name), problems);
                }
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                if let Some(item) = shape.items() {
                    let known = shape.known_values();
                    let path = format!("{path}[{index}]");
                    not_among(known, value, &path, problems);
                    unsupported(item, value, &path, problems);
                }
            }
        }
        Value::String(_) => not_among(shape.known_values(), value, path, problems),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn not_among(known: &[&str], value: &Value, path: &str, problems: &mut Vec<Problem>) {
    let Some(text) = value.as_str().filter(|text| !text.is_empty() && !known.is_empty()) else {
        return;
    };
    if !known.contains(&text) && problems.iter().all(|problem| problem.path != path) {
        problems.push(problem(Path::new(path).not_supported(text, known)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: Value) -> Result<Option<Scope>, String> {
        let problems = |p: Vec<Problem>| p.iter().map(Problem::to_string).collect::<Vec<_>>();
        OfflineValidator::default().check(&object).map_err(|p| problems(p).join("\n"))
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "it is a table")]
    fn invalid_objects_are_rejected_with_their_field() {
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        let with = |mut object: Value, pointer: &str, value: Value| {
            *object.pointer_mut(pointer).unwrap() = value;
            object
        };
        let image = json!([{"name": "c", "image": "i"}]);
        for (object, wanted) in [
            (pod(json!({"containers": image, "nodeNam": "n"})), "spec.nodeNam: unknown field"),
            (
                pod(json!({"containers": [{"name": "c"}]})),
                "spec.containers[0].image: Required value",
            ),
            (pod(json!({"containers": 1})), "spec.containers: cannot unmarshal number"),
            (
                pod(
                    json!({"containers": image, "tolerations": [{"effect": "NoSchedul", "operator": "Exists"}]}),
                ),
                "spec.tolerations[0].effect: Unsupported value: \"NoSchedul\"",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"},
                       "spec": {"containers": image}, "status": {"phase": "Runing"}}),
                "status.phase: Unsupported value: \"Runing\"",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                       "spec": {"taints": [{"key": "a", "effect": "NoExecut"}]}}),
                "spec.taints[0].effect: Unsupported value",
            ),
            (
                json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                       "spec": {"unhealthyPodEvictionPolicy": "Always"}}),
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Always\"",
            ),
            (
                object("policy/v1beta1", "PodDisruptionBudget"),
                "apiVersion: `policy/v1beta1` has no PodDisruptionBudget; expected policy/v1",
            ),
            (
                object("agones.dev/v2", "Fleet"),
                "apiVersion: `agones.dev/v2` has no Fleet; expected agones.dev/v1",
            ),
            (object("agones.io/v1", "Fleet"), "apiVersion: `agones.io/v1` has no Fleet"),
            (
                object("agones.dev/v1", "Flet"),
                "kind: `agones.dev/v1` has no kind `Flet`, did you mean `Fleet`?",
            ),
            (
                object("allocation.agones.dev/v1", "GameServerAlocation"),
                "did you mean `GameServerAllocation`?",
            ),
            (object("v1", "Pods"), "kind: `v1` has no kind `Pods`, did you mean `Pod`?"),
            (object("extensions/v1beta1", "Deployment"), "kind: `extensions/v1beta1` has no kind"),
            (
                object("agones.dev", "Fleet"),
                "apiVersion: `agones.dev` has no Fleet; expected agones.dev/v1",
            ),
            (
                with(object("v1", "Node"), "/metadata/name", json!("A_b")),
                "metadata.name: Invalid value: \"A_b\"",
            ),
            (
                with(object("agones.dev/v1", "Fleet"), "/metadata/name", json!("A_b")),
                "metadata.name: Invalid value: \"A_b\"",
            ),
            (
                json!({"apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f", "lables": {}},
                       "spec": {"replcas": 1, "template": {"spec": {"template": {"spec": {"containers": image}}}}}}),
                "metadata.lables: unknown field\nspec.replcas: unknown field",
            ),
        ] {
            let found = check(object.clone()).expect_err(&object.to_string());
            assert!(found.contains(wanted), "{object}: {found}");
        }
    }

    #[test]
    fn admitted_objects_are_checked_against_the_schema() {
        let autoscaler = |uid: Value, spec: Value| {
            let metadata = json!({"name": "n", "uid": uid});
            let object = json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler", "metadata": metadata, "spec": spec});
            OfflineValidator::default().check_admitted(&object)
        };
        assert_eq!(autoscaler(Value::Null, json!({"seed": i64::MAX})), Ok(()));
        for uid in [Value::Null, json!("u")] {
            let problems = autoscaler(uid, json!({"seed": u64::MAX})).unwrap_err();
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].path, "spec.seed", "{problems:?}");
        }
        let other = json!({"apiVersion": "example.com/v1", "kind": "Thing"});
        assert_eq!(OfflineValidator::default().check_admitted(&other), Ok(()));
    }

    #[test]
    fn valid_objects_are_accepted() {
        let namespaced = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(check(namespaced), Ok(Some(Scope::Namespaced)));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"conditions": [{"type": "FromSomeone", "status": "Unknown"}], "phase": ""}});
        assert_eq!(check(node), Ok(Some(Scope::Cluster)));
        let foreign = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": 7});
        assert_eq!(check(foreign), Ok(None));
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        assert_eq!(check(job), Ok(Some(Scope::Namespaced)));
    }
}
