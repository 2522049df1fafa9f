//! Validates objects of built-in kinds.
//!
//! Covers the rules that users run into, with kube-apiserver's wording and order.

mod config;
mod container;
mod meta;
pub mod names;
mod network;
mod numbers;
mod pod;
mod rest;
mod selector;
mod storage;
mod update;
mod volume;
mod workload;

use serde_json::Value;

use super::field::{FieldError, Path};
use super::{BuiltIn, WrittenPart};
pub use meta::{NameRule, validate_meta, validate_meta_update};
pub(super) use selector::label_selector;

/// The errors found so far.
pub(super) type Errors = Vec<FieldError>;

/// Validates a new object.
pub fn validate_create(kind: BuiltIn<'_>, namespaced: bool, object: &Value) -> Errors {
    let mut errors = validate_stored(kind, namespaced, object);
    if (kind.group, kind.kind) == ("", "Pod") {
        pod::create_only(&object["spec"], &mut errors);
    }
    errors
}

/// Validates an object against the rules that also hold after its creation.
pub fn validate_stored(kind: BuiltIn<'_>, namespaced: bool, object: &Value) -> Errors {
    let mut errors = Errors::new();
    validate_meta(
        &object["metadata"],
        namespaced,
        name_rule(kind),
        &Path::new("metadata"),
        &mut errors,
    );
    content(kind, object, &mut errors);
    errors
}

/// Validates a change of an object.
pub fn validate_update(
    kind: BuiltIn<'_>,
    part: WrittenPart,
    object: &Value,
    old: &Value,
) -> Errors {
    let mut errors = Errors::new();
    validate_meta_update(
        &object["metadata"],
        &old["metadata"],
        &Path::new("metadata"),
        &mut errors,
    );
    if part == WrittenPart::Main {
        update::main(kind, object, old, &mut errors);
    }
    errors
}

/// Validates the content of a new or changed object.
fn content(kind: BuiltIn<'_>, object: &Value, errors: &mut Errors) {
    match (kind.group, kind.kind) {
        ("", "Pod") => pod::pod(object, errors),
        ("", "PodTemplate") => {
            pod::template(&object["template"], &Path::new("template"), errors);
        }
        ("", "ReplicationController") => workload::replication_controller(object, errors),
        ("apps", "Deployment") => workload::deployment(object, errors),
        ("apps", "ReplicaSet") => workload::replica_set(object, errors),
        ("apps", "DaemonSet") => workload::daemon_set(object, errors),
        ("apps", "StatefulSet") => workload::stateful_set(object, errors),
        ("batch", "Job") => workload::job(object, errors),
        ("batch", "CronJob") => workload::cron_job(object, errors),
        ("", "Service") => network::service(object, errors),
        ("", "Endpoints") => network::endpoints(object, errors),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(object, errors),
        ("networking.k8s.io", "Ingress") => network::ingress(object, errors),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(object, errors),
        ("", "ConfigMap") => config::config_map(object, errors),
        ("", "Secret") => config::secret(object, errors),
        ("", "LimitRange") => config::limit_range(object, errors),
        ("", "ResourceQuota") => config::resource_quota(object, errors),
        ("", "PersistentVolume") => storage::volume(object, errors),
        ("", "PersistentVolumeClaim") => {
            storage::claim(&object["spec"], &Path::new("spec"), errors)
        }
        ("storage.k8s.io", "StorageClass") => storage::class(object, errors),
        ("storage.k8s.io", "CSINode") => storage::csi_node(object, errors),
        _ => rest::content(kind, object, errors),
    }
}

fn name_rule(kind: BuiltIn<'_>) -> NameRule {
    match (kind.group, kind.kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        ("rbac.authorization.k8s.io" | "apiregistration.k8s.io", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

#[cfg(test)]
mod tests;
