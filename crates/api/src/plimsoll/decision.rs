//! Decision: one entry of the journal, with the inputs to decide again.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Checks;
use crate::{Admission, Kind, Problem, Scope};

/// A recorded decision, with its reasons, its inputs and its outcome
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "Decision",
    namespaced,
    derive = "PartialEq",
    selectable = ".spec.subject.kind",
    selectable = ".spec.subject.name",
    printcolumn = r#"{"name": "Kind", "type": "string", "jsonPath": ".spec.subject.kind"}"#,
    printcolumn = r#"{"name": "Subject", "type": "string", "jsonPath": ".spec.subject.name"}"#,
    printcolumn = r#"{"name": "From", "type": "integer", "jsonPath": ".spec.decision.from"}"#,
    printcolumn = r#"{"name": "To", "type": "integer", "jsonPath": ".spec.decision.to"}"#,
    printcolumn = r#"{"name": "Outcome", "type": "string", "jsonPath": ".spec.outcome"}"#,
    printcolumn = r#"{"name": "Reasons", "type": "string", "jsonPath": ".spec.decision.reasons[*].code"}"#,
    printcolumn = r#"{"name": "Repeated", "type": "integer", "jsonPath": ".spec.repeated"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSpec {
    /// The time of the decision, with the fraction of the second: a cooldown ends within one.
    #[serde(serialize_with = "precise")]
    #[schemars(with = "Time")]
    pub at: Time,
    /// The object that the decision is about.
    pub subject: DecisionSubject,
    /// The decision, as `plimsoll evaluate -o json` prints it. A list of more than 100 items ends with `{more: N}`.
    #[serde(default)]
    #[schemars(schema_with = "free_form")]
    pub decision: Map<String, Value>,
    /// The objects that were read, reduced to the fields that the decision depends on and without credentials.
    #[serde(default)]
    #[schemars(schema_with = "free_form_list")]
    pub inputs: Vec<Value>,
    /// Whether the inputs were too large to be kept, so that the decision cannot be replayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The result of carrying out the decision.
    pub outcome: DecisionOutcome,
    /// With `Failed`: the error of the API server or provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// With `Shadow`: the changes that another autoscaler made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<ObservedChange>,
    /// The number of later evaluations with the same result for the same reasons.
    #[serde(default)]
    pub repeated: i64,
    /// The time of the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Time>,
}

/// The object that a decision is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSubject {
    /// Its kind.
    pub kind: String,
    /// Its namespace; absent for a cluster-wide kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The result of carrying out a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DecisionOutcome {
    /// The change was made.
    Applied,
    /// There was nothing to change.
    Held,
    /// The object had changed since it was read; it is evaluated again.
    Overtaken,
    /// The change was refused or did not reach its target.
    Failed,
    /// The policy only records decisions.
    DryRun,
    /// Another autoscaler is in control, and this one only records decisions.
    Shadow,
}

/// A change that another autoscaler made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedChange {
    /// The time of the change.
    pub at: Time,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
    /// The autoscaler that made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// Writes a time with its fraction of a second, if it has one.
fn precise<S: Serializer>(at: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.0)
}

fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn free_form_list(_: &mut SchemaGenerator) -> Schema {
    let item = json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json_schema!({"type": "array", "items": item})
}

/// Decision, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "Decision",
    plural: "decisions",
    scope: Scope::Namespaced,
    crd: Some(Decision::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&Decision::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let decision: Decision = super::read(value, &FIELDS)?;
    let spec = &decision.spec;
    let mut checks = Checks::default();
    for (path, text) in
        [("spec.subject.kind", &spec.subject.kind), ("spec.subject.name", &spec.subject.name)]
    {
        checks.require(!text.is_empty(), path, "must not be empty");
    }
    checks.require(spec.repeated >= 0, "spec.repeated", "must not be negative");
    for (index, input) in spec.inputs.iter().enumerate() {
        let path = format!("spec.inputs[{index}]");
        checks.require(input.is_object(), &path, "expected an object");
    }
    checks.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut spec = json!({
            "at": "2026-01-01T00:00:00Z",
            "subject": {"kind": "FleetAutoscaler", "namespace": "default", "name": "arena", "uid": "u"},
            "decision": {"from": 3, "to": 5, "reasons": [{"code": "BufferShort", "message": "m"}]},
            "inputs": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}],
            "outcome": "Applied", "message": "", "observed": [],
            "repeated": 0, "lastAt": "2026-01-01T00:00:00Z",
        });
        change(&mut spec);
        let mut value = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Decision",
            "metadata": {"name": "fleetautoscaler-7f3a9c21-41", "namespace": "default"}, "spec": spec,
        });
        let found = admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH });
        found.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_documented_example_is_accepted() {
        assert_eq!(problems(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 5] = [
            (
                |spec| spec["outcom"] = json!("Held"),
                "spec.outcom: unknown field, did you mean `outcome`?",
            ),
            (|spec| spec["outcome"] = json!("Done"), "spec.outcome: unknown variant `Done`"),
            (|spec| spec["subject"]["name"] = json!(""), "spec.subject.name: must not be empty"),
            (|spec| spec["repeated"] = json!(-1), "spec.repeated: must not be negative"),
            (|spec| spec["inputs"] = json!([7]), "spec.inputs[0]: expected an object"),
        ];
        for (change, wanted) in cases {
            let found = problems(change);
            assert!(found.first().is_some_and(|p| p.starts_with(wanted)), "{wanted}: {found:?}");
        }
    }

    #[test]
    fn the_time_keeps_its_fraction() {
        let object = |at: &str| {
            json!({
                "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Decision", "metadata": {"name": "d"},
                "spec": {"at": at, "subject": {"kind": "Fleet", "name": "f"}, "outcome": "Held"},
            })
        };
        for at in ["2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00Z"] {
            let decision: Decision = serde_json::from_value(object(at)).unwrap();
            assert_eq!(json!(decision)["spec"]["at"], at);
        }
    }

    #[test]
    fn the_subject_can_be_selected() {
        let crd = json!(Decision::crd());
        let fields = &crd["spec"]["versions"][0]["selectableFields"];
        assert_eq!(
            *fields,
            json!([{"jsonPath": ".spec.subject.kind"}, {"jsonPath": ".spec.subject.name"}])
        );
    }
}
