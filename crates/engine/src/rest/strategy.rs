//! What does the API do to objects of a kind when they are written?
//!
//! The write path calls these in this order: defaults, then what a kind keeps to itself (such as the status, when the
//! spec is written), then validation.

use serde_json::{Value, json};

use super::{Call, meta};
use crate::resource::{Origin, Resource, Subresource};
use crate::status::{Answer, Status};

/// Kinds whose objects count their generations.
fn counts_generations(resource: &Resource) -> bool {
    resource.origin == Origin::Custom
        || matches!(
            resource.plural.as_str(),
            "deployments"
                | "replicasets"
                | "statefulsets"
                | "daemonsets"
                | "jobs"
                | "cronjobs"
                | "poddisruptionbudgets"
                | "replicationcontrollers"
                | "customresourcedefinitions"
                | "ingresses"
                | "networkpolicies"
                | "pods"
        )
}

/// Kinds that may be written without saying which version the write was made from.
pub(super) fn allows_unconditional_update(resource: &Resource) -> bool {
    resource.origin == Origin::BuiltIn
        && !matches!(
            resource.plural.as_str(),
            "runtimeclasses"
                | "poddisruptionbudgets"
                | "csidrivers"
                | "csistoragecapacities"
                | "volumeattachments"
                | "csinodes"
                | "leases"
                | "mutatingwebhookconfigurations"
                | "validatingwebhookconfigurations"
                | "customresourcedefinitions"
                | "apiservices"
        )
}

/// Kinds whose objects an update makes when they are not there.
pub(super) fn allows_create_on_update(resource: &Resource) -> bool {
    resource.origin == Origin::BuiltIn
        && matches!(
            resource.plural.as_str(),
            "runtimeclasses"
                | "rolebindings"
                | "clusterrolebindings"
                | "roles"
                | "clusterroles"
                | "leases"
                | "limitranges"
                | "events"
                | "services"
                | "endpoints"
        )
}

/// Kinds whose deletion answers with the object instead of a success status.
pub(super) fn returns_deleted(resource: &Resource) -> bool {
    resource.origin == Origin::BuiltIn
        && matches!(
            resource.plural.as_str(),
            "csidrivers"
                | "storageclasses"
                | "volumeattachments"
                | "csinodes"
                | "volumeattributesclasses"
                | "resourcequotas"
                | "persistentvolumes"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "namespaces"
                | "pods"
                | "services"
                | "podtemplates"
        )
}

/// Fills in what a writer left out, and does what admission on a cluster does.
pub(super) fn complete(call: &Call, object: &mut Value, old: Option<&Value>) -> Answer<()> {
    let (api_version, kind) = (call.resource.api_version(), &call.resource.kind);
    let Some(ours) = api::find(Some(&api_version), kind) else { return Ok(()) };
    let admission = api::Admission { old, now: call.core.clock.now() };
    (ours.admit)(object, &admission).map_err(|problems| {
        let causes = problems.iter().map(|p| (p.path.as_str(), p.message.clone()));
        invalid(call, meta::text(object, "name"), &causes.collect::<Vec<_>>())
    })
}

/// Refuses an object, naming each field that is wrong.
fn invalid(call: &Call, name: &str, wrong: &[(&str, String)]) -> Box<Status> {
    let resource = &call.resource;
    let all: Vec<String> = wrong.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    let said = if all.len() == 1 { all[0].clone() } else { format!("[{}]", all.join(", ")) };
    let message = format!("{} \"{name}\" is invalid: {said}", resource.qualified_kind());
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(crate::status::details(name, &resource.group, &resource.kind));
    wrong.iter().fold(status, |status, (path, why)| {
        status.cause(json!({"reason": "FieldValueInvalid", "message": why, "field": path}))
    })
}

/// Makes a new object complete, and refuses one that is wrong.
pub(super) fn create(call: &Call, object: &mut Value) -> Answer<()> {
    let resource = &call.resource;
    if counts_generations(resource) {
        meta::set(object, "generation", Some(1.into()));
    } else {
        meta::set(object, "generation", None);
    }
    if resource.has(Subresource::Status)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    Ok(())
}

/// Makes a changed object complete, and refuses one that is wrong.
pub(super) fn update(call: &Call, object: &mut Value, old: &Value) -> Answer<()> {
    meta::keep(old, object, "generation");
    let (Some(new), Some(was)) = (object.as_object_mut(), old.as_object()) else { return Ok(()) };
    if call.subresource == Some(Subresource::Status) {
        let status = new.remove("status");
        let metadata = new.remove("metadata");
        *new = was.clone();
        if let Some(metadata) = metadata {
            new.insert("metadata".to_owned(), metadata);
        }
        match status {
            Some(status) => drop(new.insert("status".to_owned(), status)),
            None => drop(new.remove("status")),
        }
        return Ok(());
    }
    if call.resource.has(Subresource::Status) && call.subresource.is_none() {
        match was.get("status") {
            Some(status) => drop(new.insert("status".to_owned(), status.clone())),
            None => drop(new.remove("status")),
        }
    }
    let differs = |key: &str| new.get(key) != was.get(key);
    let has_changed = new.keys().chain(was.keys()).any(|key| {
        !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion") && differs(key)
    });
    if has_changed && counts_generations(&call.resource) {
        meta::next_generation(object);
    }
    Ok(())
}
