//! What does the API do to objects of a kind when they are written?
//!
//! The write path calls these in order: `complete` fills in what was left out and does what admission does; then, once
//! it is noted who owns what, `create` or `update` resets what a writer may not set, and refuses what makes no sense.

use serde_json::Value;

use super::{Call, meta};
use crate::builtin::admit::{Classes, admit};
use crate::builtin::field::FieldError;
use crate::builtin::{self, BuiltIn, Part};
use crate::resource::{Origin, Resource, Subresource};
use crate::status::{Answer, Status};

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

fn kind(resource: &Resource) -> Option<BuiltIn<'_>> {
    let kind = BuiltIn { group: &resource.group, kind: &resource.kind };
    (resource.origin == Origin::BuiltIn).then_some(kind)
}

/// Fills in what a writer left out, and does what admission on a cluster does.
pub(super) fn complete(call: &Call, object: &mut Value, old: Option<&Value>) -> Answer<()> {
    let resource = &call.resource;
    if let Some(kind) = kind(resource) {
        builtin::default(kind, resource.shape(), object);
        if old.is_none() {
            let classes = Classes {
                by_name: &|name| priority_class(call, |class| meta::text(class, "name") == name),
                global_default: resource
                    .is("", "Pod")
                    .then(|| priority_class(call, |class| class["globalDefault"] == true))
                    .flatten(),
            };
            admit(kind, object, &classes)
                .map_err(|why| Status::forbidden(resource, meta::text(object, "name"), &why))?;
        }
        return Ok(());
    }
    let Some(ours) = api::find(Some(&resource.api_version()), &resource.kind) else {
        return Ok(());
    };
    let admission = api::Admission { old, now: call.core.clock.now() };
    (ours.admit)(object, &admission).map_err(|problems| {
        let wrong: Vec<FieldError> = problems.into_iter().map(FieldError::from).collect();
        invalid(call, meta::text(object, "name"), &wrong)
    })
}

/// Finds a priority class.
fn priority_class(call: &Call, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
    let classes =
        call.core.store.list("priorityclasses.scheduling.k8s.io", "", None, usize::MAX, None);
    let classes = classes.map(|page| page.items).unwrap_or_default();
    let values =
        classes.iter().map(|(_, class)| class.value("scheduling.k8s.io/v1", "PriorityClass"));
    values.into_iter().find(is_it)
}

/// Resets what the writer of a new object may not set, and refuses one that is wrong.
pub(super) fn create(call: &Call, object: &mut Value) -> Answer<()> {
    let now = meta::time(call.core.clock.now());
    let Some(kind) = kind(&call.resource) else { return Ok(()) };
    meta::set(object, "generation", None);
    builtin::prepare_create(kind, object, now.as_str().unwrap_or_default());
    check(call, object, &builtin::validate_create(kind, call.resource.namespaced, object))
}

/// Resets what the writer of a changed object may not set, and refuses one that is wrong.
pub(super) fn update(call: &Call, object: &mut Value, old: &Value) -> Answer<()> {
    let now = meta::time(call.core.clock.now());
    let part = match call.subresource {
        None | Some(Subresource::Scale) => Part::Main,
        Some(Subresource::Status) => Part::Status,
        Some(_) => Part::Other,
    };
    let Some(kind) = kind(&call.resource) else { return Ok(()) };
    builtin::prepare_update(kind, part, object, old, now.as_str().unwrap_or_default());
    check(call, object, &builtin::validate_update(kind, part, object, old))
}

fn check(call: &Call, object: &Value, wrong: &[FieldError]) -> Answer<()> {
    if wrong.is_empty() { Ok(()) } else { Err(invalid(call, meta::text(object, "name"), wrong)) }
}

/// Refuses an object, naming each field that is wrong.
pub(super) fn invalid(call: &Call, name: &str, wrong: &[FieldError]) -> Box<Status> {
    let resource = &call.resource;
    let said = builtin::field::message(wrong);
    let message = format!("{} \"{name}\" is invalid: {said}", resource.qualified_kind());
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(crate::status::details(name, &resource.group, &resource.kind));
    wrong.iter().fold(status, |status, wrong| status.cause(wrong.cause()))
}
