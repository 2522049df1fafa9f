//! Targets: what a policy scales.
//!
//! A new target is one file beside `scale.rs` and one line in `TARGETS`.

mod aws_autoscaling_group;
mod docker;
mod node_group;
mod nomad;
mod rancher;
mod scale;
mod webhook;

use std::fmt;
use std::sync::Arc;

use api::plimsoll::scaling_policy::TargetSpec;
use cluster::error::{api_message, status_code};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::ask::why;
use crate::call::CallError;
use crate::connection::ConnectionError;
use crate::metric_source::SourceError;
use crate::registry::{Context, OpenError, Registry};

pub(crate) use scale::ScaleTarget;

type Constructor = fn(&Context, &TargetRef) -> Result<Arc<dyn Target>, String>;

/// All targets by the name of their block in a policy's `target`. `scale` has no block: it is an object by apiVersion, kind and name.
const TARGETS: Registry<Constructor> = Registry {
    what: "target",
    constructors: &[
        ("awsAutoscalingGroup", aws_autoscaling_group::open),
        ("docker", docker::open),
        ("nodeGroup", node_group::open),
        ("nomad", nomad::open),
        ("rancher", rancher::open),
        (SCALE, scale::open),
        ("webhook", webhook::open),
    ],
};

const SCALE: &str = "scale";

/// A service, a workload or anything else whose size can be read and set.
pub trait Target: Send + Sync {
    /// Reads the present size, and how much of it is ready.
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>>;

    /// Reads the present size alone, for systems where that is cheaper or needs fewer rights.
    fn size(&self) -> BoxFuture<'_, Result<TargetSize, TargetError>> {
        Box::pin(async move {
            let TargetStatus { count, version, .. } = self.status().await?;
            Ok(TargetSize { count, version })
        })
    }

    /// Sets the size, if the target is still at `version`.
    fn scale<'a>(&'a self, to: u32, version: &'a Version)
    -> BoxFuture<'a, Result<(), TargetError>>;
}

/// A target as a policy names it.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetRef {
    /// The namespace of the policy.
    pub namespace: String,
    /// The policy's `target`.
    pub spec: TargetSpec,
}

/// The size of a target, and the version at which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    /// The size that was last requested.
    pub count: u32,
    /// How many units are ready.
    pub ready: u32,
    /// Changes with every change of the size, and possibly more often.
    pub version: Version,
}

/// The size of a target alone, and the version at which it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSize {
    /// The size that was last requested.
    pub count: u32,
    /// Changes with every change of the size, and possibly more often.
    pub version: Version,
}

/// The version of a target, in the words of the system that has it: a resourceVersion, an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Names a version.
    pub fn new(version: impl Into<String>) -> Self {
        Self(version.into())
    }

    /// Returns the version as the system writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a target's size could not be read or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The target has changed since its version was read. Nothing was scaled: decide again.
    #[error("{target} has changed meanwhile: {message}")]
    Conflict {
        /// The target's name.
        target: String,
        /// The message of the system.
        message: String,
    },
    /// The system refused. Nothing was scaled, and the same request will be refused again.
    #[error("{target}: {message}")]
    Refused {
        /// The target's name.
        target: String,
        /// The message of the system.
        message: String,
    },
    /// The system did not accept the request for the time being. Nothing was scaled.
    #[error("{target} is unavailable: {message}")]
    Unavailable {
        /// The target's name.
        target: String,
        /// The cause.
        message: String,
    },
    /// The request may or may not have been carried out: read the size before asking again.
    #[error("{target} may or may not have been scaled: {message}")]
    Unknown {
        /// The target's name.
        target: String,
        /// The cause.
        message: String,
    },
}

impl TargetError {
    /// Returns the message of the system, or the cause.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Conflict { message, .. }
            | Self::Refused { message, .. }
            | Self::Unavailable { message, .. }
            | Self::Unknown { message, .. } => message,
        }
    }
}

/// Opens a target. Nothing is sent before its size is read or set.
pub fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, OpenError> {
    let name = name(&target.spec);
    let constructor = TARGETS.find(&name)?;
    constructor(context, target).map_err(TARGETS.settings_error(&name))
}

/// Returns the name of a target's block.
fn name(spec: &TargetSpec) -> String {
    let Ok(Value::Object(mut blocks)) = serde_json::to_value(spec) else { return SCALE.to_owned() };
    ["apiVersion", "kind", "name"].iter().for_each(|field| drop(blocks.remove(*field)));
    blocks.into_iter().next().map_or_else(|| SCALE.to_owned(), |(name, _)| name)
}

/// Returns the error of a target whose MetricSource cannot be used.
fn source_error(target: &str, error: SourceError) -> TargetError {
    let (target, message) = (target.to_owned(), error.to_string());
    match error {
        SourceError::Unavailable { .. } => TargetError::Unavailable { target, message },
        SourceError::Refused { .. } => TargetError::Refused { target, message },
    }
}

/// Returns the error of a target that is an object of the cluster and could not be read.
fn object_error(target: String, error: &kube::Error) -> TargetError {
    let message = api_message(error);
    match status_code(error) {
        Some(400..=407 | 410..=428) => TargetError::Refused { target, message },
        Some(_) | None => TargetError::Unavailable { target, message },
    }
}

/// Returns the error of a target that could not be read.
fn read_error(target: &str, error: &ConnectionError) -> TargetError {
    let is_client_error = |error: &ConnectionError| matches!(error, ConnectionError::Call(CallError::Status { status, .. }) if status.is_client_error());
    let (target, message) = (target.to_owned(), why(error));
    if matches!(error, ConnectionError::Unauthorized { .. }) || is_client_error(error) {
        return TargetError::Refused { target, message };
    }
    TargetError::Unavailable { target, message }
}

/// Returns the error of a change that could not be sent, or whose outcome is not known.
fn write_error(target: &str, error: &ConnectionError) -> TargetError {
    if error.is_before_sending() {
        return read_error(target, error);
    }
    TargetError::Unknown { target: target.to_owned(), message: why(error) }
}

/// Returns the outcome of a change that a system answered with an HTTP status.
fn outcome(target: String, status: u16, message: String) -> Result<(), TargetError> {
    match status {
        200..=299 => Ok(()),
        409 => Err(TargetError::Conflict { target, message }),
        429 | 503 => Err(TargetError::Unavailable { target, message }),
        300..=499 => Err(TargetError::Refused { target, message }),
        _ => Err(TargetError::Unknown { target, message }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_named_by_its_block() {
        for (spec, wanted) in [
            (json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}), "scale"),
            (json!({"docker": {"service": "web"}}), "docker"),
            (json!({"awsAutoscalingGroup": {"name": "web"}}), "awsAutoscalingGroup"),
        ] {
            assert_eq!(name(&serde_json::from_value(spec).unwrap()), wanted);
        }
        let unknown = TARGETS.find("dokcer").map(drop).unwrap_err().to_string();
        assert!(unknown.starts_with("there is no target `dokcer`; known are "), "{unknown}");
    }
}
