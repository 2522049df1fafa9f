//! How does an object change?
//!
//! A change is made from the object as it is, and stored only if it still is that. A client that says which version it
//! saw is told when it was too late; for one that does not, the change is made again from what is there now.

use std::sync::Arc;

use http::header;
use serde_json::{Value, json};

use super::create::{self, Written};
use super::{Call, Reply, convert, form, meta, refused, strategy};
use crate::patch;
use crate::resource::Subresource;
use crate::status::{Answer, Status};
use crate::store::{Body, Object, Write, WriteError};

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
    let mut object = create::decode(call)?;
    create::match_namespace(call, &mut object)?;
    let name = meta::text(&object, "name");
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let makes = strategy::allows_create_on_update(&call.resource) && call.subresource.is_none();
    let changed = change(call, makes, |_| Ok(object.clone())).await?;
    Ok(changed.written.reply(call, if changed.is_new { 201 } else { 200 }))
}

/// Patches an object, or the part that the request names.
pub(super) async fn patch(call: &Call) -> Answer<Reply> {
    let patch = Patch::read(call)?;
    let changed = change(call, false, |old| {
        let mut object = old.cloned().unwrap_or_default();
        patch.apply(call, &mut object)?;
        create::check_kind(call, &mut object)?;
        create::match_namespace(call, &mut object)?;
        Ok(object)
    })
    .await?;
    Ok(changed.written.reply(call, if changed.is_new { 201 } else { 200 }))
}

/// Applies the patch of a request to something that is not the object itself.
pub(super) fn patched(call: &Call, mut value: Value) -> Answer<Value> {
    Patch::read(call)?.apply(call, &mut value)?;
    Ok(value)
}

/// A patch in one of its forms.
enum Patch {
    Json(Value),
    Merge(Value),
}

impl Patch {
    fn read(call: &Call) -> Answer<Self> {
        let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        match content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json(form::json(&call.body)?)),
            "application/merge-patch+json" => Ok(Self::Merge(form::json(&call.body)?)),
            _ => {
                let message = "the body of the request was in an unknown format - accepted media \
                               types include: application/json-patch+json, \
                               application/merge-patch+json, application/apply-patch+yaml";
                Err(Status::new(415, "UnsupportedMediaType", message))
            }
        }
    }

    fn apply(&self, call: &Call, object: &mut Value) -> Answer<()> {
        let applied = match self {
            Self::Json(patch) => {
                patch::json::Patch::decode(patch.clone()).and_then(|patch| patch.apply(object))
            }
            Self::Merge(patch) => patch::merge::apply(object, patch.clone()),
        };
        applied.map_err(|err| patch_refused(call, err))
    }
}

fn patch_refused(call: &Call, err: patch::Error) -> Box<Status> {
    let message = err.to_string();
    match err {
        patch::Error::Malformed(_) => Status::bad_request(message),
        patch::Error::TooManyOperations { .. } => {
            Status::new(413, "RequestEntityTooLarge", message)
        }
        patch::Error::DoesNotApply(_) => {
            let message = "the server rejected our request due to an error in our request";
            Status::about(422, "Invalid", &call.resource, call.name(), message)
        }
        patch::Error::Unexpected(_) => Status::new(500, "", message),
    }
}

/// Changes the object that the request names: `make` gives the new object from what is there.
pub(super) async fn change(
    call: &Call,
    makes_new: bool,
    make: impl Fn(Option<&Value>) -> Answer<Value>,
) -> Answer<Changed> {
    let (resource, name) = (&call.resource, call.name());
    let key: Arc<str> = Arc::from(call.key(name));
    for _ in 0..TRIES {
        let Some(seen) = call.core.store.get(&resource.storage, &key) else {
            if !makes_new {
                return Err(Status::not_found(resource, name));
            }
            let written = create::create(call, make(None)?).await?;
            return Ok(Changed { written, is_new: true });
        };
        let old = call.value(&seen);
        let mut new = make(Some(&old))?;
        prepare(call, &mut new, &old)?;
        let is_gone = ends_with(call, &new, &old);
        if call.query.is_dry_run() {
            return Ok(Changed { written: Written::WouldBe(new), is_new: false });
        }
        let body = Body::new(&convert::kept(resource, new.clone()));
        if body.is_same(&seen) && !is_gone {
            return Ok(Changed { written: Written::Stored(seen), is_new: false });
        }
        let write = Write {
            collection: Arc::clone(&resource.storage),
            key: Arc::clone(&key),
            expected: Some(seen.version()),
            body: (!is_gone).then_some(body),
        };
        match call.core.store.write(write).await {
            Ok(stored) => {
                call.core.notice(resource);
                let written = if is_gone { Written::WouldBe(new) } else { Written::Stored(stored) };
                return Ok(Changed { written, is_new: false });
            }
            Err(WriteError::Conflict) => {}
            Err(err) => return Err(refused(resource, name, err)),
        }
    }
    Err(Status::stale(resource, name))
}

/// Checks which version and which object the change was made from, and completes it.
fn prepare(call: &Call, new: &mut Value, old: &Value) -> Answer<()> {
    let (resource, name) = (&call.resource, call.name());
    let uid = meta::text(new, "uid");
    let known = meta::text(old, "uid");
    if !uid.is_empty() && uid != known {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {known}");
        return Err(Status::conflict(resource, name, &why));
    }
    match meta::text(new, "resourceVersion") {
        "" | "0" if strategy::allows_unconditional_update(resource) => {}
        "" | "0" => {
            let why = "Invalid value: 0: must be specified for an update";
            let said = crate::resource::qualified(&resource.plural, &resource.group);
            let message = format!("{said} \"{name}\" is invalid: metadata.resourceVersion: {why}");
            let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": "metadata.resourceVersion"});
            return Err(Status::about(422, "Invalid", resource, name, message).cause(cause));
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
    match call.subresource {
        // These change what nobody may write otherwise, and nothing else.
        Some(Subresource::Binding | Subresource::Eviction) => Ok(()),
        _ => strategy::update(call, new, old),
    }
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

/// Stores a change to an object that was just read, whoever asked for it.
pub(super) async fn replace(call: &Call, seen: &Object, new: &Value) -> Result<Object, WriteError> {
    let name = meta::text(new, "name");
    let key = Arc::from(call.resource.key(Some(meta::text(new, "namespace")), name));
    let body = Some(Body::new(&convert::kept(&call.resource, new.clone())));
    let collection = Arc::clone(&call.resource.storage);
    let stored = call
        .core
        .store
        .write(Write { collection, key, expected: Some(seen.version()), body })
        .await?;
    call.core.notice(&call.resource);
    Ok(stored)
}
