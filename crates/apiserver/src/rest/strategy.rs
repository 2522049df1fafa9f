//! What does the API do to objects of a kind when they are written?
//!
//! The write path calls these in this order: defaults, then what a kind keeps to itself (such as the status, when the
//! spec is written), then validation.

use serde_json::{Map, Value};

use super::{Call, meta, service_addresses};
use crate::status::{Answer, Status};
use apimachinery::builtin::admit::Classes;
use apimachinery::builtin::field::{self, FieldError, Path};
use apimachinery::builtin::{self, BuiltIn, Part};
use apimachinery::crd;
use apimachinery::resource::{Origin, Resource, Subresource};
use apimachinery::schema::times;

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

/// Fills in what a writer left out, and does what our own kinds' webhooks would do on a cluster.
pub(super) fn complete(call: &Call, object: &mut Value, old: Option<&Value>) -> Answer<()> {
    let resource = &call.resource;
    if resource.is(CRD.0, CRD.1) {
        crd::default(object);
    } else if resource.origin == Origin::BuiltIn {
        builtin::default(kind(resource), resource.shape(), object);
    }
    // Webhooks are not asked about `status` and `scale`, which have the schema alone to fit.
    let Some(ours) = api::find(Some(&resource.api_version()), &resource.kind)
        .filter(|ours| old.is_none() || ours.asks_about_changes())
        .filter(|_| call.subresource.is_none())
    else {
        return Ok(());
    };
    let admission = api::Admission { old, now: call.core.clock.now() };
    (ours.admit)(object, &admission).map_err(|problems| {
        let wrong: Vec<FieldError> = problems.into_iter().map(FieldError::from).collect();
        invalid(call, meta::text(object, "name"), &wrong)
    })
}

const CRD: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

fn kind(resource: &Resource) -> BuiltIn<'_> {
    BuiltIn { group: &resource.group, kind: &resource.kind }
}

/// Refuses an object, naming each field that is wrong.
pub(super) fn invalid(call: &Call, name: &str, wrong: &[FieldError]) -> Box<Status> {
    let resource = &call.resource;
    // Events of both groups are checked as those of the core group.
    let group = if resource.is("events.k8s.io", "Event") { "" } else { &resource.group };
    let said = field::message(wrong);
    let kind = apimachinery::resource::qualified(&resource.kind, group);
    let mut status = Status::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {said}"));
    status.details = Some(crate::status::details(name, group, &resource.kind));
    wrong.iter().fold(status, |status, error| status.cause(error.cause()))
}

fn refuse(call: &Call, object: &Value, wrong: &[FieldError]) -> Answer<()> {
    if wrong.is_empty() { Ok(()) } else { Err(invalid(call, meta::text(object, "name"), wrong)) }
}

/// Makes a new object complete, and refuses one that is wrong.
pub(super) fn create(call: &Call, object: &mut Value) -> Answer<()> {
    let resource = &call.resource;
    if resource.origin == Origin::Custom {
        return create_custom(call, object);
    }
    let now = times::write(call.core.clock.now(), false);
    admit(call, object)?;
    builtin::prepare_create(kind(resource), object, &now);
    let mut errors = builtin::validate_create(kind(resource), resource.namespaced, object);
    if resource.is(CRD.0, CRD.1) {
        crd::prepare_create(object);
        errors.extend(crd::validate(object, None));
        call.warn(crd::warnings(object));
    }
    refuse(call, object, &errors)?;
    if resource.is("", "Service") { service_addresses::assign(call, object) } else { Ok(()) }
}

/// Does what admission plugins do to new objects.
fn admit(call: &Call, object: &mut Value) -> Answer<()> {
    let resource = &call.resource;
    if !resource.is("", "Pod") {
        let classes = Classes { by_name: &|_| None, global_default: None };
        let admitted = builtin::admit::admit(kind(resource), object, &classes);
        return admitted
            .map_err(|why| Status::forbidden(resource, meta::text(object, "name"), &why));
    }
    let collection = "priorityclasses.scheduling.k8s.io";
    let read = |o: crate::store::Object| o.value("scheduling.k8s.io/v1", "PriorityClass").ok();
    let by_name = |name: &str| call.core.store.get(collection, name).and_then(read);
    let all = call.core.store.list(collection, "", None, usize::MAX, None).map(|page| page.items);
    let global_default = all
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, o)| o.mentions(b"globalDefault"))
        .filter_map(|(_, o)| read(o))
        .find(|class| class["globalDefault"] == true);
    let admitted = builtin::admit::admit(
        kind(resource),
        object,
        &Classes { by_name: &by_name, global_default },
    );
    admitted.map_err(|why| Status::forbidden(resource, meta::text(object, "name"), &why))
}

fn create_custom(call: &Call, object: &mut Value) -> Answer<()> {
    meta::set(object, "generation", Some(1.into()));
    if call.resource.has(Subresource::Status)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    check_custom(call, object, None)
}

fn check_custom(call: &Call, object: &mut Value, old: Option<&Value>) -> Answer<()> {
    let Some(custom) = &call.resource.custom else { return Ok(()) };
    call.warn(custom.deprecation.clone());
    custom.default(object, old);
    let mut errors = Vec::new();
    let path = Path::new("metadata");
    match old {
        None => {
            let rule = builtin::NameRule::Subdomain;
            builtin::validate_meta(
                &object["metadata"],
                call.resource.namespaced,
                rule,
                &path,
                &mut errors,
            );
        }
        Some(old) => {
            builtin::validate_meta_update(&object["metadata"], &old["metadata"], &path, &mut errors)
        }
    }
    errors.extend(custom.check(object, old));
    refuse(call, object, &errors)
}

/// Makes a changed object complete, and refuses one that is wrong.
pub(super) fn update(call: &Call, object: &mut Value, old: &Value) -> Answer<()> {
    let resource = &call.resource;
    if resource.origin == Origin::Custom {
        return update_custom(call, object, old);
    }
    let part = match call.subresource {
        None | Some(Subresource::Scale) => Part::Main,
        Some(Subresource::Status) => Part::Status,
        Some(_) => Part::Other,
    };
    let now = times::write(call.core.clock.now(), false);
    // A cluster's plugins look at changed pods, too.
    if resource.is("", "Pod") && call.subresource.is_none() {
        admit(call, object)?;
    }
    builtin::prepare_update(kind(resource), part, object, old, &now);
    let mut errors = builtin::validate_update(kind(resource), part, object, old);
    if resource.is(CRD.0, CRD.1) && part == Part::Main {
        crd::prepare_update(object);
        errors.extend(crd::validate(object, Some(old)));
        call.warn(crd::warnings(object));
    }
    refuse(call, object, &errors)?;
    let is_service = resource.is("", "Service") && part == Part::Main;
    if is_service { service_addresses::assign(call, object) } else { Ok(()) }
}

fn update_custom(call: &Call, object: &mut Value, old: &Value) -> Answer<()> {
    meta::keep(old, object, "generation");
    let (Some(new), Some(was)) = (object.as_object_mut(), old.as_object()) else { return Ok(()) };
    if call.subresource == Some(Subresource::Status) {
        let (status, metadata) = (new.remove("status"), new.remove("metadata"));
        *new = was.clone();
        put(new, "status", status);
        if metadata.is_some() {
            put(new, "metadata", metadata);
        }
        return check_custom(call, object, Some(old));
    }
    if call.resource.has(Subresource::Status) {
        put(new, "status", was.get("status").cloned());
    }
    let keys = new.keys().chain(was.keys());
    let has_changed = keys
        .filter(|k| !matches!(k.as_str(), "metadata" | "kind" | "apiVersion"))
        .filter(|k| k.as_str() != "status" || !call.resource.has(Subresource::Status))
        .any(|key| new.get(key) != was.get(key));
    if has_changed {
        meta::next_generation(object);
    }
    check_custom(call, object, Some(old))
}

fn put(fields: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(field.to_owned(), value)),
        None => drop(fields.remove(field)),
    }
}
