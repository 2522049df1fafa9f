//! The request to a webhook or a WebAssembly module, and its response.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agones::FleetStatus;

/// The question and the answer, in one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetAutoscaleReview {
    /// The question.
    pub request: Option<FleetAutoscaleRequest>,
    /// The answer.
    pub response: Option<FleetAutoscaleResponse>,
}

/// Which fleet is to be sized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetAutoscaleRequest {
    /// Names this one question.
    pub uid: String,
    /// The fleet's name.
    pub name: String,
    /// The fleet's namespace.
    pub namespace: String,
    /// The fleet's status.
    pub status: FleetStatus,
    /// The fleet's labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The fleet's annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How large the fleet should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetAutoscaleResponse {
    /// Names the question that this answers.
    pub uid: String,
    /// False: leave the fleet as it is.
    pub scale: bool,
    /// How many game servers there should be.
    pub replicas: i32,
}
