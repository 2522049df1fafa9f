//! The messages of KEDA's external scaler protocol, package `externalscaler`.

use std::collections::BTreeMap;

/// The object that is scaled.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScaledObjectRef {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) scaler_metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IsActiveResponse {
    #[prost(bool, tag = "1")]
    pub(super) result: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetMetricsRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) scaled_object_ref: Option<ScaledObjectRef>,
    #[prost(string, tag = "2")]
    pub(super) metric_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GetMetricsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) metric_values: Vec<MetricValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricValue {
    #[prost(string, tag = "1")]
    pub(super) metric_name: String,
    #[prost(int64, tag = "2")]
    pub(super) metric_value: i64,
    #[prost(double, tag = "3")]
    pub(super) metric_value_float: f64,
}

impl MetricValue {
    /// Returns the number: that of the newer field where it is positive, as KEDA does, or where the older one is not set.
    pub(super) fn number(&self) -> f64 {
        if self.metric_value_float > 0.0 || self.metric_value == 0 {
            self.metric_value_float
        } else {
            self.metric_value as f64
        }
    }
}
