//! MetricSource: where live checks get their numbers.
//!
//! The settings of a source belong to its driver, which reads them when the source is opened; here only their place is checked.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Checks, Span};
use crate::{Admission, Kind, Problem, Scope};

/// A system that live checks query
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "MetricSource",
    shortname = "ms",
    status = "MetricSourceStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Reachable", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Reachable')].status"}"#,
    printcolumn = r#"{"name": "Last-Query", "type": "date", "jsonPath": ".status.lastQueryAt"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricSourceSpec {
    /// How long a query may take; 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Prometheus, or another server of its HTTP API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub prometheus: Option<Map<String, Value>>,
    /// The metrics APIs of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub kubernetes: Option<Map<String, Value>>,
    /// The stats of a container engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub docker: Option<Map<String, Value>>,
    /// The statistics of HAProxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub haproxy: Option<Map<String, Value>>,
    /// Nomad's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub nomad: Option<Map<String, Value>>,
    /// Rancher's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub rancher: Option<Map<String, Value>>,
    /// An external scaler of KEDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub external_scaler: Option<Map<String, Value>>,
    /// A URL that returns JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub http: Option<Map<String, Value>>,
    /// Lists and streams of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub redis: Option<Map<String, Value>>,
    /// Queues of RabbitMQ, by its management API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub rabbitmq: Option<Map<String, Value>>,
    /// JetStream consumers, by the monitoring port of NATS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub nats: Option<Map<String, Value>>,
    /// Queues of Amazon SQS.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub sqs: Option<Map<String, Value>>,
}

/// The observed state of a MetricSource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricSourceStatus {
    /// `Reachable`: whether the source could be reached at the newest query, and accepted the credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the source was last queried, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_query_at: Option<Time>,
}

fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// MetricSource, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "MetricSource",
    plural: "metricsources",
    scope: Scope::Cluster,
    crd: Some(MetricSource::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&MetricSource::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let source: MetricSource = super::read(value, &FIELDS)?;
    let mut checks = Checks::default();
    if let Some(timeout) = source.spec.timeout {
        checks.require(timeout.0.is_positive(), "spec.timeout", "must be positive");
    }
    let blocks = source.spec.blocks();
    let found: Vec<&str> = blocks.keys().map(String::as_str).collect();
    let message = match found.len() {
        0 => "names no source; it takes one block, such as `prometheus`".to_owned(),
        _ => format!("takes one source, found {}", found.join(", ")),
    };
    checks.require(found.len() == 1, "spec", message);
    checks.done()
}

impl MetricSourceSpec {
    /// Returns the spec as the registry of sources reads it.
    pub fn settings(&self) -> Map<String, Value> {
        let value = serde_json::to_value(self);
        if let Ok(Value::Object(settings)) = value { settings } else { Map::new() }
    }

    /// Returns the name of the driver; `None` unless there is exactly one.
    pub fn driver(&self) -> Option<String> {
        let blocks = self.blocks();
        (blocks.len() == 1).then(|| blocks.into_iter().next().map(|(name, _)| name)).flatten()
    }

    fn blocks(&self) -> Map<String, Value> {
        let mut settings = self.settings();
        settings.remove("timeout");
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn admitted(spec: Value) -> Result<(), Vec<String>> {
        let mut value = json!({"metadata": {"name": "m"}, "spec": spec});
        admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH })
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_source_has_one_driver_and_its_settings_are_kept() {
        let http = json!({"timeout": "2s", "http": {"url": "http://a/", "value": "/n"}});
        assert_eq!(admitted(http.clone()), Ok(()));
        let spec: MetricSourceSpec = serde_json::from_value(http.clone()).unwrap();
        assert_eq!(
            (spec.driver().as_deref(), Value::Object(spec.settings())),
            (Some("http"), http)
        );
        assert_eq!(admitted(json!({"kubernetes": {}})), Ok(()));
        for (spec, wanted) in [
            (json!({}), "spec: names no source"),
            (json!({"http": {}, "redis": {}}), "spec: takes one source, found http, redis"),
            (json!({"timeout": "0s", "http": {}}), "spec.timeout: must be positive"),
            (json!({"promtheus": {}}), "spec.promtheus: unknown field, did you mean `prometheus`?"),
        ] {
            let found = admitted(spec.clone()).unwrap_err();
            assert!(found[0].starts_with(wanted), "{spec}: {found:?}");
        }
    }
}
