//! ContainerStats: what a container engine counted of one container, in place of a live one.

mod series;

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Checks;
use crate::{Admission, Kind, Problem, Scope};
pub use series::{of_service, sample};

/// The stats of one container, as a container engine reports them
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "ContainerStats",
    plural = "containerstats",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name": "Service", "type": "string", "jsonPath": ".spec.serviceId"}"#,
    printcolumn = r#"{"name": "Container", "type": "string", "jsonPath": ".spec.container"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatsSpec {
    /// The service that the container belongs to.
    pub service_id: String,
    /// The container.
    pub container: String,
    /// The cores that it requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_request: Option<Quantity>,
    /// How many cores it may use, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<Quantity>,
    /// The memory that it requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_request: Option<Quantity>,
    /// Its memory limit, or `none`; absent: the limit in the stats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Quantity>,
    /// The samples, in any order.
    #[serde(default)]
    pub samples: Vec<SampleSpec>,
}

/// The stats at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SampleSpec {
    /// The time.
    pub at: Time,
    /// The stats object of Docker Engine.
    #[schemars(schema_with = "free_form")]
    pub stats: Value,
}

fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// ContainerStats, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "ContainerStats",
    plural: "containerstats",
    scope: Scope::Namespaced,
    crd: Some(ContainerStats::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&ContainerStats::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let stats: ContainerStats = super::read(value, &FIELDS)?;
    let spec = &stats.spec;
    let mut checks = Checks::default();
    checks.require(!spec.service_id.is_empty(), "spec.serviceId", "must not be empty");
    checks.require(!spec.container.is_empty(), "spec.container", "must not be empty");
    for (field, quantity, may_be_none) in [
        ("cpuRequest", &spec.cpu_request, false),
        ("cpuLimit", &spec.cpu_limit, true),
        ("memoryRequest", &spec.memory_request, false),
        ("memoryLimit", &spec.memory_limit, true),
    ] {
        if let Some(quantity) = quantity.as_ref().filter(|q| !(may_be_none && q.0 == "none")) {
            checks.quantity(&format!("spec.{field}"), quantity);
        }
    }
    for (index, sample) in spec.samples.iter().enumerate() {
        let path = format!("spec.samples[{index}].stats");
        checks.require(sample.stats.is_object(), &path, "expected Docker Engine's stats object");
    }
    checks.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        for (spec, wanted) in [
            (json!({"serviceId": "1s5"}), "spec: missing field `container`"),
            (json!({"serviceId": "", "container": "c"}), "spec.serviceId: must not be empty"),
            (
                json!({"serviceId": "a", "container": "c", "cpuRequest": "none"}),
                "spec.cpuRequest: `none`",
            ),
            (
                json!({"serviceId": "a", "container": "c", "memoryLimit": "-1"}),
                "spec.memoryLimit: must",
            ),
            (
                json!({"serviceId": "a", "container": "c", "samples": [{"at": "2026-01-01T00:00:00Z", "stats": 1}]}),
                "spec.samples[0].stats: expected",
            ),
            (
                json!({"serviceId": "a", "container": "c", "smaples": []}),
                "spec.smaples: unknown field",
            ),
        ] {
            let mut value = json!({"metadata": {"name": "s"}, "spec": spec});
            let found = admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH })
                .unwrap_err();
            assert!(found[0].to_string().starts_with(wanted), "{found:?}");
        }
        let fine = json!({"serviceId": "a", "container": "c", "cpuLimit": "none", "memoryLimit": "1Gi",
            "samples": [{"at": "2026-01-01T00:00:00Z", "stats": {"anything": 1}}]});
        let mut value = json!({"metadata": {"name": "s"}, "spec": fine});
        admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH }).unwrap();
    }
}
