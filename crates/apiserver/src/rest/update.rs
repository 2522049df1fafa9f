//! Updates objects.
//!
//! A change is made from the stored object, and stored only if that is still its version. A client that names the version it
//! read gets a conflict otherwise; for one that does not, the change is made again from the newer version.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::create::{self, Owners, Written};
use super::write::NotStored;
use super::{Call, Reply, convert, decode, meta, owner, service_addresses, strategy};
use crate::definitions;
use crate::status::{ApiResult, Status};
use crate::store::{Body, Object, PartialObject, Parts, Unparsed, Write, WriteError};
use apimachinery::fields;
use apimachinery::resource::{Removal, Subresource};

/// How often a change is made again when others are faster.
const TRIES: usize = 64;

/// The result of an update.
pub(super) struct Changed {
    pub(super) written: Written,
    /// Whether the object was not there before.
    pub(super) is_new: bool,
}

/// Replaces an object, or the part that the request names.
pub(super) async fn put(call: &Call) -> ApiResult<Reply> {
    let mut object = decode::object(call)?;
    create::match_namespace(call, &mut object)?;
    check_name(call, &object)?;
    let makes = call.resource.rules.create_on_update && call.subresource.is_none();
    let make = |_: Option<&Value>| Ok(object.clone());
    let changed = change(call, makes, Owners::ToRecord, Parts::All, make).await?;
    Ok(changed.written.reply(call, if changed.is_new { 201 } else { 200 }))
}

/// Refuses an object whose name is not the one in the path.
pub(super) fn check_name(call: &Call, object: &Value) -> ApiResult<()> {
    let (given, wanted) = (meta::text(object, "name"), call.name());
    let why = match given {
        "" => format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ),
        given if given != wanted => {
            format!(
                "the name of the object ({given}) does not match the name on the URL ({wanted})"
            )
        }
        _ => return Ok(()),
    };
    Err(Status::bad_request(why))
}

/// Returns the parts that must be read to change the members that this names, as a merge patch does: all of them, unless every
/// step of the write ignores unchanged members.
pub(super) fn parts<'a>(call: &Call, mut named: Cow<'a, Value>) -> Parts<'a> {
    let resource = &call.resource;
    let is_asked_about = || {
        let ours = api::find(Some(&resource.api_version()), &resource.kind);
        ours.is_some_and(|ours| ours.asks_about_changes())
    };
    // Writes of the API server itself are not validated.
    let is_free = call.is_internal
        || resource
            .custom
            .as_ref()
            .is_some_and(|custom| custom.can_be_read_in_parts(&mut named) && !is_asked_about());
    if is_free && convert::is_kept_as_served(resource) && !call.query.is_dry_run() {
        Parts::Named(named)
    } else {
        Parts::All
    }
}

/// Changes the object that the request names: `make` returns the new object, given these parts of the stored one. If that fails,
/// it is called again with the whole object, so that the error can show it.
pub(super) async fn change(
    call: &Call,
    makes_new: bool,
    owners: Owners,
    mut parts: Parts<'_>,
    make: impl Fn(Option<&Value>) -> ApiResult<Value>,
) -> ApiResult<Changed> {
    let (resource, name) = (&call.resource, call.name());
    let key: Arc<str> = Arc::from(call.key(name));
    for _ in 0..TRIES {
        let Some(stored) = call.core.store.get(&resource.storage, &key) else {
            if !makes_new {
                return Err(Status::not_found(resource, name));
            }
            let written = create::create(call, make(None)?, owners).await?;
            return Ok(Changed { written, is_new: true });
        };
        let _lock = service_addresses::lock(call).await;
        let old = match &parts {
            Parts::All => Some(PartialObject::whole(call.value(name, &stored)?)),
            Parts::Named(named) => stored.partial(&resource.api_version(), &resource.kind, named),
        };
        let Some(PartialObject { value: old, mut unparsed }) = old else {
            parts = Parts::All;
            continue;
        };
        let made = make(Some(&old))
            .and_then(|mut new| prepare(call, &mut new, &old, &mut unparsed, owners).map(|()| new));
        let is_gone = made.as_ref().is_ok_and(|new| ends_with(call, new, &old));
        if (made.is_err() || is_gone) && !matches!(parts, Parts::All) {
            parts = Parts::All;
            continue;
        }
        let new = made?;
        if call.query.is_dry_run() {
            return Ok(Changed { written: Written::WouldBe(new), is_new: false });
        }
        let body = Body::changed(&convert::kept(resource, &new), &old, &unparsed);
        if body.is_same(&stored) && !is_gone {
            return Ok(Changed { written: Written::Stored(stored), is_new: false });
        }
        let write = Write {
            collection: Arc::clone(&resource.storage),
            key: Arc::clone(&key),
            expected: Some(stored.version()),
            body: (!is_gone).then_some(body),
        };
        // Many requests wait for the disk at the same time: each frees memory first.
        drop((old, unparsed));
        let last = is_gone.then_some(new);
        match call.write(resource, name, Some(&stored), write).await {
            Ok(now) => {
                definitions::on_write(&call.core, resource);
                let written = last.map_or(Written::Stored(now), Written::WouldBe);
                return Ok(Changed { written, is_new: false });
            }
            Err(NotStored::Conflict) => {}
            Err(NotStored::Refused(status)) => return Err(status),
        }
    }
    Err(Status::stale(resource, name))
}

/// Checks which version and which object the change was made from, and completes it.
fn prepare(
    call: &Call,
    new: &mut Value,
    old: &Value,
    unparsed: &mut Unparsed,
    owners: Owners,
) -> ApiResult<()> {
    let (resource, name) = (&call.resource, call.name());
    let uid = meta::text(new, "uid");
    let known = meta::text(old, "uid");
    if !uid.is_empty() && uid != known {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {uid}, UID in object meta: {known}",
            resource.plural,
            call.key(name)
        );
        return Err(Status::conflict(resource, name, &why));
    }
    match meta::text(new, "resourceVersion") {
        "" | "0" if resource.rules.unconditional_update => {}
        "" | "0" => {
            let why = "Invalid value: 0: must be specified for an update";
            let qualified = resource.qualified();
            let message =
                format!("{qualified} \"{name}\" is invalid: metadata.resourceVersion: {why}");
            let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"});
            return Err(Status::for_object(422, "Invalid", resource, name, message).cause(cause));
        }
        version if version.parse::<u64>().is_err() => {
            let version = apimachinery::quote::quote(version);
            let why = format!("strconv.ParseUint: parsing {version}: invalid syntax");
            return Err(Status::new(500, "", why));
        }
        version if version != meta::text(old, "resourceVersion") => {
            return Err(Status::stale(resource, name));
        }
        _ => {}
    }
    for field in ["uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"] {
        meta::keep(old, new, field);
    }
    if new["metadata"]["deletionGracePeriodSeconds"].is_null() {
        meta::keep(old, new, "deletionGracePeriodSeconds");
    }
    meta::set(new, "selfLink", None);
    if call.is_internal {
        return Ok(());
    }
    strategy::complete(call, new, Some(old))?;
    if owners == Owners::ToRecord {
        owner::record_update(call, old, new, unparsed);
    }
    strategy::update(call, new, old)?;
    fields::restore_unchanged_times(old, new);
    Ok(())
}

/// Returns whether a change removes the last reason to keep a deleted object.
fn ends_with(call: &Call, new: &Value, old: &Value) -> bool {
    let grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let is_free = meta::finalizers(new).is_empty() && grace == Some(0);
    match call.resource.rules.removal {
        Removal::AtOnce | Removal::AfterGracePeriod => {
            is_free && call.subresource != Some(Subresource::Scale)
        }
        Removal::WhenFinalized => {
            let kept = new["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
            meta::is_deleting(old) && meta::finalizers(new).is_empty() && !kept
        }
    }
}

/// Marks an object that was just read as being deleted. That adds little, and any object can be deleted: its size is not checked.
pub(super) async fn replace(
    call: &Call,
    stored: &Object,
    new: &Value,
) -> Result<Object, WriteError> {
    let name = meta::text(new, "name");
    let key = Arc::from(call.resource.key(Some(meta::text(new, "namespace")), name));
    let body = Some(Body::new(&convert::kept(&call.resource, new)));
    let collection = Arc::clone(&call.resource.storage);
    let written = call
        .core
        .store
        .write(Write { collection, key, expected: Some(stored.version()), body })
        .await?;
    definitions::on_write(&call.core, &call.resource);
    Ok(written)
}
