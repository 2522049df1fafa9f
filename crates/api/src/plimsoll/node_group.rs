//! NodeGroup: machines of one shape, with a target size.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Checks, Span};
use crate::{Admission, Kind, Problem, Scope};

/// The label with the name of a Node's group.
pub const LABEL: &str = "plimsoll.dev/node-group";

/// A group of machines of one shape
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "NodeGroup",
    shortname = "ng",
    status = "NodeGroupStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Min", "type": "integer", "jsonPath": ".spec.min"}"#,
    printcolumn = r#"{"name": "Max", "type": "integer", "jsonPath": ".spec.max"}"#,
    printcolumn = r#"{"name": "Target", "type": "integer", "jsonPath": ".status.target"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupSpec {
    /// The minimum size of the group.
    #[serde(default)]
    pub min: i32,
    /// The maximum size of the group.
    pub max: i32,
    /// The price of one node per hour, for the expander `price`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// For the expander `priority`: higher is chosen first.
    #[serde(default)]
    pub priority: i32,
    /// Whether the group is scaled from 0 to max at once, and back.
    #[serde(default)]
    pub all_or_nothing: bool,
    /// The template of a new node; optional while the group has a ready node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// Settings of this group alone, in place of those of the NodeAutoscaler.
    #[serde(default)]
    pub options: Options,
    /// How the group is scaled.
    #[serde(default)]
    #[schemars(schema_with = "free_form")]
    pub provider: Map<String, Value>,
}

/// The template of a new node of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Template {
    /// The labels of a new node; the hostname label and the group's label are added.
    pub labels: BTreeMap<String, String>,
    /// The annotations of a new node.
    pub annotations: BTreeMap<String, String>,
    /// The taints of a new node.
    pub taints: Vec<Taint>,
    /// All resources of a new node.
    pub capacity: BTreeMap<String, Quantity>,
    /// The part that is available to pods; all of `capacity` unless given.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// Settings of one group, in place of those of the NodeAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Options {
    /// The utilization up to which a node can be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_threshold: Option<f64>,
    /// The same for the GPUs of a node that has GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_utilization_threshold: Option<f64>,
    /// How long a node must be unneeded before it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unneeded_for: Option<Span>,
    /// How long an unready node must be unneeded before it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_for: Option<Span>,
    /// How long a requested node may take to appear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_provision_time: Option<Span>,
    /// Whether pods of DaemonSets are left out of a node's utilisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_daemon_sets_utilization: Option<bool>,
}

/// The state of a group besides its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// The target size; absent: the number of Nodes in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<i32>,
    /// A scale-up whose nodes have not all appeared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// Until when the group is not scaled up after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<Time>,
    /// Whether its provider is replacing its machines, so that none of its nodes is removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rolling_out: bool,
    /// How long the group's nodes usually take until they are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provision_time: Option<Span>,
    /// The last observations of the group's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An unfinished scale-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleUp {
    /// When it was requested.
    pub at: Time,
    /// The number of nodes.
    pub increase: i32,
}

fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// NodeGroup, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "NodeGroup",
    plural: "nodegroups",
    scope: Scope::Cluster,
    crd: Some(NodeGroup::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&NodeGroup::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let group: NodeGroup = super::read(value, &FIELDS)?;
    let mut checks = Checks::default();
    check_spec(&mut checks, &group.spec);
    for problem in crate::nodes::annotation_problems(&group) {
        checks.require(false, &problem.path, problem.message);
    }
    if let Some(status) = &group.status {
        let is_negative = |n: Option<i32>| n.is_some_and(|n| n < 0);
        checks.require(!is_negative(status.target), "status.target", "must not be negative");
        let increase = status.scale_up.as_ref().map(|s| s.increase);
        checks.require(!is_negative(increase), "status.scaleUp.increase", "must not be negative");
    }
    checks.done()
}

fn check_spec(checks: &mut Checks, spec: &NodeGroupSpec) {
    checks.require(spec.min >= 0, "spec.min", "must not be negative");
    checks.require(
        spec.max >= spec.min.max(0),
        "spec.max",
        format!("{} is less than min, which is {}", spec.max, spec.min.max(0)),
    );
    let price = spec.price.unwrap_or(0.0);
    checks.require(price.is_finite() && price >= 0.0, "spec.price", "must not be negative");
    if let Some(template) = &spec.template {
        for (field, resources) in
            [("capacity", &template.capacity), ("allocatable", &template.allocatable)]
        {
            for (name, quantity) in resources {
                checks.quantity(&format!("spec.template.{field}.{name}"), quantity);
            }
        }
        for (index, taint) in template.taints.iter().enumerate() {
            checks.taint(&format!("spec.template.taints[{index}]"), taint);
        }
    }
    let options = &spec.options;
    for (field, share) in [
        ("utilizationThreshold", options.utilization_threshold),
        ("gpuUtilizationThreshold", options.gpu_utilization_threshold),
    ] {
        share.iter().for_each(|s| checks.share(&format!("spec.options.{field}"), *s));
    }
    for (field, span) in [
        ("unneededFor", options.unneeded_for),
        ("unreadyFor", options.unready_for),
        ("maxProvisionTime", options.max_provision_time),
    ] {
        span.iter().for_each(|s| checks.span(&format!("spec.options.{field}"), *s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn problems(spec: Value) -> Vec<String> {
        let mut value = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup",
            "metadata": {"name": "pool-a"}, "spec": spec
        });
        let found = admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH });
        found.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        for (spec, wanted) in [
            (json!({}), "spec: missing field `max`"),
            (json!({"max": 1, "min": 2}), "spec.max: 1 is less than min, which is 2"),
            (json!({"max": 1, "min": -1}), "spec.min: must not be negative"),
            (json!({"max": "1"}), "spec.max: invalid type: string \"1\", expected i32"),
            (
                json!({"max": 1, "alOrNothing": true}),
                "spec.alOrNothing: unknown field, did you mean `allOrNothing`?",
            ),
            (
                json!({"max": 1, "options": {"unneededfor": "5m"}}),
                "spec.options.unneededfor: unknown field, did you mean `unneededFor`?",
            ),
            (
                json!({"max": 1, "options": {"unneededFor": "5"}}),
                "spec.options.unneededFor: `5` is not a duration; write it like `90s`, `5m` or `1h30m`",
            ),
            (
                json!({"max": 1, "options": {"utilizationThreshold": 1.5}}),
                "spec.options.utilizationThreshold: must be between 0 and 1",
            ),
            (
                json!({"max": 1, "template": {"taints": [{"key": "a", "effect": "NoWay"}]}}),
                "spec.template.taints[0].effect: `NoWay` is not NoSchedule, PreferNoSchedule or NoExecute",
            ),
        ] {
            assert_eq!(problems(spec.clone()), [wanted], "{spec}");
        }
        let bad = problems(json!({"max": 1, "template": {"capacity": {"cpu": "four"}}}));
        assert!(bad[0].starts_with("spec.template.capacity.cpu: `four`"), "{bad:?}");
    }

    #[test]
    fn the_documented_example_is_accepted() {
        let spec = json!({
            "min": 0, "max": 10, "price": 0.25, "priority": 10, "allOrNothing": false,
            "template": {
                "labels": {"disk": "ssd"}, "annotations": {},
                "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": 110}, "allocatable": {},
            },
            "options": {"utilizationThreshold": 0.4, "unneededFor": "2m"},
            "provider": {"anything": {"at": ["all"]}},
        });
        assert_eq!(problems(spec), Vec::<String>::new());
    }
}
