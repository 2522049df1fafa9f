//! How does an object change?
//!
//! A change is made from the object as it is, and stored only if it still is that. A client that says which version it
//! saw is told when it was too late; for one that does not, the change is made again from what is there now.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::create::{self, Owners, Written};
use super::write::NotStored;
use super::{Call, Reply, convert, decode, meta, owner, service_addresses, strategy};
use crate::definitions;
use crate::status::{Answer, Status};
use crate::store::{Body, Object, Parts, Write, WriteError};
use apimachinery::fields;
use apimachinery::resource::Subresource;

/// How often a change is made again when others are faster.
const TRIES: usize = 64;

/// What a change leaves.
pub(super) struct Changed {
    pub(super) written: Written,
    /// Whether the object was not there before.
    pub(super) is_new: bool,
}

/// Replaces an object, or the part that the request names.
pub(super) async fn put(call: &Call) -> Answer<Reply> {
    let mut object = decode::object(call)?;
    create::match_namespace(call, &mut object)?;
    check_name(call, &object)?;
    let makes = strategy::allows_create_on_update(&call.resource) && call.subresource.is_none();
    let make = |_: Option<&Value>| Ok(object.clone());
    let changed = change(call, makes, Owners::ToBeNoted, Parts::All, make).await?;
    Ok(changed.written.reply(call, if changed.is_new { 201 } else { 200 }))
}

/// Refuses an object of another name than the path's.
pub(super) fn check_name(call: &Call, object: &Value) -> Answer<()> {
    let (said, wanted) = (meta::text(object, "name"), call.name());
    let why = match said {
        "" => format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ),
        said if said != wanted => {
            format!("the name of the object ({said}) does not match the name on the URL ({wanted})")
        }
        _ => return Ok(()),
    };
    Err(Status::bad_request(why))
}

/// Gives what must be read to change what this names, as a merge patch does: no more, if nothing looks at what does not change.
pub(super) fn parts<'a>(call: &Call, mut named: Cow<'a, Value>) -> Parts<'a> {
    let resource = &call.resource;
    let is_asked_about = || {
        let ours = api::find(Some(&resource.api_version()), &resource.kind);
        ours.is_some_and(|ours| ours.asks_about_changes())
    };
    // What the engine does itself is not checked.
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

/// Changes the object that the request names: `make` gives the new object from these parts of what is there. Where that fails,
/// it is made again from the whole, which can be shown in the refusal.
pub(super) async fn change(
    call: &Call,
    makes_new: bool,
    owners: Owners,
    mut parts: Parts<'_>,
    make: impl Fn(Option<&Value>) -> Answer<Value>,
) -> Answer<Changed> {
    let (resource, name) = (&call.resource, call.name());
    let key: Arc<str> = Arc::from(call.key(name));
    for _ in 0..TRIES {
        let Some(seen) = call.core.store.get(&resource.storage, &key) else {
            if !makes_new {
                return Err(Status::not_found(resource, name));
            }
            let written = create::create(call, make(None)?, owners).await?;
            return Ok(Changed { written, is_new: true });
        };
        let _lock = service_addresses::lock(call).await;
        let old = match &parts {
            Parts::All => Some(call.value(name, &seen)?),
            Parts::Named(_) => seen.parts(&resource.api_version(), &resource.kind, &parts),
        };
        let Some(old) = old else {
            parts = Parts::All;
            continue;
        };
        let made = make(Some(&old))
            .and_then(|mut new| prepare(call, &mut new, &old, owners).map(|()| new));
        let is_gone = made.as_ref().is_ok_and(|new| ends_with(call, new, &old));
        if (made.is_err() || is_gone) && !matches!(parts, Parts::All) {
            parts = Parts::All;
            continue;
        }
        let new = made?;
        if call.query.is_dry_run() {
            return Ok(Changed { written: Written::WouldBe(new), is_new: false });
        }
        let body = Body::changed(&convert::kept(resource, &new), &old, &parts);
        if body.is_same(&seen) && !is_gone {
            return Ok(Changed { written: Written::Stored(seen), is_new: false });
        }
        let write = Write {
            collection: Arc::clone(&resource.storage),
            key: Arc::clone(&key),
            expected: Some(seen.version()),
            body: (!is_gone).then_some(body),
        };
        // Many wait for the disk at the same time: what they do not need is let go before.
        drop(old);
        let last = is_gone.then_some(new);
        match call.write(resource, name, Some(&seen), write).await {
            Ok(stored) => {
                definitions::notice(&call.core, resource);
                let written = last.map_or(Written::Stored(stored), Written::WouldBe);
                return Ok(Changed { written, is_new: false });
            }
            Err(NotStored::Conflict) => {}
            Err(NotStored::Refused(status)) => return Err(status),
        }
    }
    Err(Status::stale(resource, name))
}

/// Checks which version and which object the change was made from, and completes it.
fn prepare(call: &Call, new: &mut Value, old: &Value, owners: Owners) -> Answer<()> {
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
        "" | "0" if strategy::allows_unconditional_update(resource) => {}
        "" | "0" => {
            let why = "Invalid value: 0: must be specified for an update";
            let said = apimachinery::resource::qualified(&resource.plural, &resource.group);
            let message = format!("{said} \"{name}\" is invalid: metadata.resourceVersion: {why}");
            let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"});
            return Err(Status::about(422, "Invalid", resource, name, message).cause(cause));
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
    if owners == Owners::ToBeNoted {
        owner::note(call, Some(old), new);
    }
    strategy::update(call, new, old)?;
    fields::settle(old, new);
    Ok(())
}

/// Tells whether the last thing that kept a deleted object is gone with this change.
fn ends_with(call: &Call, new: &Value, old: &Value) -> bool {
    let grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let is_free = meta::finalizers(new).is_empty() && grace == Some(0);
    if call.resource.is("", "Namespace") {
        let kept = new["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        return meta::is_deleting(old) && meta::finalizers(new).is_empty() && !kept;
    }
    is_free && call.subresource != Some(Subresource::Scale)
}

/// Marks an object that was just read as being deleted. That adds little, and any object can be deleted: its size is not checked.
pub(super) async fn replace(call: &Call, seen: &Object, new: &Value) -> Result<Object, WriteError> {
    let name = meta::text(new, "name");
    let key = Arc::from(call.resource.key(Some(meta::text(new, "namespace")), name));
    let body = Some(Body::new(&convert::kept(&call.resource, new)));
    let collection = Arc::clone(&call.resource.storage);
    let stored = call
        .core
        .store
        .write(Write { collection, key, expected: Some(seen.version()), body })
        .await?;
    definitions::notice(&call.core, &call.resource);
    Ok(stored)
}
