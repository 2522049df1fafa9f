//! Defaults, prepares and validates written objects.
//!
//! A write calls these in this order: defaults, then the fields that the request may not change (such as the status, when the
//! spec is written), then validation.

use serde_json::{Map, Value};

use super::{Call, admission, meta, service_addresses};
use crate::status::{ApiResult, Status};
use apimachinery::builtin::field::{self, FieldError, Path};
use apimachinery::builtin::{self, BuiltIn, WrittenPart};
use apimachinery::crd;
use apimachinery::resource::{Conversion, Origin, Resource, Subresource};
use apimachinery::schema::times;

/// Fills in defaults, and does the work of our own kinds' webhooks.
pub(super) fn complete(call: &Call, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let resource = &call.resource;
    if resource.rules.defines_kinds {
        crd::default(object);
    } else if resource.origin == Origin::BuiltIn {
        builtin::default(kind(resource), resource.shape(), object);
    }
    // Webhooks are not called for `status` and `scale`, which only the schema validates.
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

pub(super) fn kind(resource: &Resource) -> BuiltIn<'_> {
    BuiltIn { group: &resource.group, kind: &resource.kind }
}

/// Returns the refusal of an object that names each invalid field.
pub(super) fn invalid(call: &Call, name: &str, wrong: &[FieldError]) -> Box<Status> {
    let resource = &call.resource;
    // Objects are validated in the version in which they are stored.
    let stored_group = resource.rules.conversion.map(Conversion::stored_group);
    let group = stored_group.unwrap_or(&resource.group);
    let kind = apimachinery::resource::qualified(&resource.kind, group);
    let message = format!("{kind} \"{name}\" is invalid: {}", field::message(wrong));
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(crate::status::details(name, group, &resource.kind));
    wrong.iter().fold(status, |status, error| status.cause(error.cause()))
}

fn refuse(call: &Call, object: &Value, wrong: &[FieldError]) -> ApiResult<()> {
    if wrong.is_empty() { Ok(()) } else { Err(invalid(call, meta::text(object, "name"), wrong)) }
}

/// Completes a new object, and refuses an invalid one.
pub(super) fn create(call: &Call, object: &mut Value) -> ApiResult<()> {
    let resource = &call.resource;
    if resource.origin == Origin::Custom {
        return create_custom(call, object);
    }
    let now = times::write(call.core.clock.now(), false);
    admission::admit(call, object)?;
    builtin::prepare_create(kind(resource), object, &now);
    let mut errors = builtin::validate_create(kind(resource), resource.namespaced, object);
    if resource.rules.defines_kinds {
        crd::prepare_create(object);
        errors.extend(crd::validate(object, None));
        call.warn(crd::warnings(object));
    }
    refuse(call, object, &errors)?;
    if resource.rules.has_addresses { service_addresses::assign(call, object) } else { Ok(()) }
}

fn create_custom(call: &Call, object: &mut Value) -> ApiResult<()> {
    meta::set(object, "generation", Some(1.into()));
    if call.resource.has(Subresource::Status)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    check_custom(call, object, None)
}

fn check_custom(call: &Call, object: &mut Value, old: Option<&Value>) -> ApiResult<()> {
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

/// Completes a changed object, and refuses an invalid one.
pub(super) fn update(call: &Call, object: &mut Value, old: &Value) -> ApiResult<()> {
    let resource = &call.resource;
    if resource.origin == Origin::Custom {
        return update_custom(call, object, old);
    }
    let part = match call.subresource {
        None | Some(Subresource::Scale) => WrittenPart::Main,
        Some(Subresource::Status) => WrittenPart::Status,
        Some(_) => WrittenPart::Other,
    };
    let now = times::write(call.core.clock.now(), false);
    if resource.rules.has_priority && call.subresource.is_none() {
        admission::admit(call, object)?;
    }
    builtin::prepare_update(kind(resource), part, object, old, &now);
    let mut errors = builtin::validate_update(kind(resource), part, object, old);
    if resource.rules.defines_kinds && part == WrittenPart::Main {
        crd::prepare_update(object);
        errors.extend(crd::validate(object, Some(old)));
        call.warn(crd::warnings(object));
    }
    refuse(call, object, &errors)?;
    let is_assigned = resource.rules.has_addresses && part == WrittenPart::Main;
    if is_assigned { service_addresses::assign(call, object) } else { Ok(()) }
}

fn update_custom(call: &Call, object: &mut Value, old: &Value) -> ApiResult<()> {
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
