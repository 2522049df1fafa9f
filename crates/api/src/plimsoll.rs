//! Plimsoll's own kinds: `plimsoll.dev/v1alpha1`.

pub mod auto_scale_policy;
pub mod container_stats;
pub mod decision;
pub mod metric_series;
pub mod metric_source;
pub mod node_autoscaler;
pub mod node_group;
pub mod scaling_policy;
mod span;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Problem;

pub use auto_scale_policy::AutoScalePolicy;
pub use container_stats::ContainerStats;
pub use decision::{Decision, DecisionOutcome, DecisionSpec, DecisionSubject, ObservedChange};
pub use metric_series::MetricSeries;
pub use metric_source::MetricSource;
pub use node_autoscaler::NodeAutoscaler;
pub use node_group::NodeGroup;
pub use scaling_policy::ScalingPolicy;
pub use span::Span;

/// The group of all kinds in here.
pub const GROUP: &str = "plimsoll.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";

/// Returns the name of every field of a kind, for hints about misspelt ones.
pub(crate) fn field_names(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut names = Vec::new();
    for version in &crd.spec.versions {
        let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
        schema.into_iter().for_each(|s| collect(s, &mut names));
    }
    names.sort();
    names.dedup();
    names
}

fn collect(schema: &JSONSchemaProps, names: &mut Vec<String>) {
    for (name, inner) in schema.properties.iter().flatten() {
        names.push(name.clone());
        collect(inner, names);
    }
    match schema.items.as_ref() {
        Some(JSONSchemaPropsOrArray::Schema(inner)) => collect(inner, names),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter().for_each(|s| collect(s, names)),
        None => {}
    }
}

/// Reads a whole object strictly. Its `apiVersion` and `kind` were read already, to find out what it is.
pub(crate) fn read<T: DeserializeOwned>(
    value: &Value,
    known: &[String],
) -> Result<T, Vec<Problem>> {
    let mut body = value.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    crate::decode::strict(&body, known)
}

/// The problems of an object, collected while its fields are checked.
#[derive(Default)]
pub(crate) struct Checks {
    problems: Vec<Problem>,
}

impl Checks {
    /// Notes a problem unless `holds`.
    pub(crate) fn require(&mut self, holds: bool, path: &str, message: impl Into<String>) {
        if !holds {
            self.problems.push(Problem::new(path, message));
        }
    }

    /// A duration must not be negative.
    pub(crate) fn span(&mut self, path: &str, span: Span) {
        self.require(!span.0.is_negative(), path, "must not be negative");
    }

    /// A share must lie between 0 and 1.
    pub(crate) fn share(&mut self, path: &str, share: f64) {
        self.require((0.0..=1.0).contains(&share), path, "must be between 0 and 1");
    }

    /// A quantity must read as one, and not be negative.
    pub(crate) fn quantity(&mut self, path: &str, quantity: &Quantity) {
        match crate::quantity::Quantity::parse_with_hint(&quantity.0) {
            Ok(amount) => self.require(!amount.is_negative(), path, "must not be negative"),
            Err(message) => self.require(false, path, message),
        }
    }

    /// A taint needs a key and one of the three effects.
    pub(crate) fn taint(&mut self, path: &str, taint: &Taint) {
        self.require(!taint.key.is_empty(), &format!("{path}.key"), "must not be empty");
        self.require(
            ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&taint.effect.as_str()),
            &format!("{path}.effect"),
            format!("`{}` is not NoSchedule, PreferNoSchedule or NoExecute", taint.effect),
        );
    }

    /// Returns the value, or the problems.
    pub(crate) fn done(self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}
