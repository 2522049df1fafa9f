//! How does a new object come to be?

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Call, Reply, convert, decode, meta, owner, refused, strategy};
use crate::status::{Answer, Status};
use crate::store::{Body, Object, Write, WriteError};

/// What a write left behind.
pub(super) enum Written {
    /// This, in the store.
    Stored(Object),
    /// Nothing, but it would have been this.
    WouldBe(Value),
}

/// Whether an object says already who owns what in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// It was applied, and says so.
    Noted,
    /// It was written, and whoever wrote it is to be noted.
    ToBeNoted,
}

impl Written {
    pub(super) fn reply(&self, call: &Call, code: u16) -> Reply {
        match self {
            Self::Stored(object) => call.show(code, object),
            Self::WouldBe(value) => call.show_value(code, value),
        }
    }
}

/// Makes the object that the request carries.
pub(super) async fn answer(call: &Call) -> Answer<Reply> {
    let mut object = decode::object(call)?;
    match_namespace(call, &mut object)?;
    let written = create(call, object, Owners::ToBeNoted).await?;
    Ok(written.reply(call, 201))
}

/// Makes an object; one that only has the beginning of a name gets the rest.
pub(super) async fn create(call: &Call, object: Value, owners: Owners) -> Answer<Written> {
    let base = meta::text(&object, "generateName").to_owned();
    let is_generated = meta::text(&object, "name").is_empty() && !base.is_empty();
    if !is_generated {
        return create_named(call, object, owners).await;
    }
    let mut tries = 8;
    loop {
        let mut object = object.clone();
        meta::set(&mut object, "name", Some(meta::generated_name(&base).into()));
        tries -= 1;
        match create_named(call, object, owners).await {
            Err(status) if status.reason == "AlreadyExists" && tries > 0 => {}
            done => return done,
        }
    }
}

async fn create_named(call: &Call, mut object: Value, owners: Owners) -> Answer<Written> {
    let is_applied = owners == Owners::Noted;
    if !is_applied && !matches!(meta::text(&object, "resourceVersion"), "" | "0") {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(500, "", why));
    }
    wipe(&mut object);
    strategy::complete(call, &mut object, None)?;
    if !is_applied {
        owner::note(call, None, &mut object);
    }
    meta::set(&mut object, "uid", Some(uuid::Uuid::new_v4().to_string().into()));
    meta::set(&mut object, "creationTimestamp", Some(meta::time(call.core.clock.now())));
    check_namespace(call, meta::text(&object, "name"))?;
    strategy::create(call, &mut object)?;
    let name = meta::text(&object, "name").to_owned();
    store_new(call, &name, object).await
}

/// Stores an object that is complete and that nobody has made before.
pub(super) async fn store_new(call: &Call, name: &str, object: Value) -> Answer<Written> {
    let store = &call.core.store;
    let key = call.key(name);
    if call.query.is_dry_run() {
        if store.get(&call.resource.storage, &key).is_some() {
            return Err(Status::already_exists(&call.resource, name));
        }
        return Ok(Written::WouldBe(object));
    }
    let body = Body::new(&convert::kept(&call.resource, &object));
    let collection = Arc::clone(&call.resource.storage);
    let write = Write { collection, key: Arc::from(key), expected: None, body: Some(body) };
    let stored = store.write(write).await.map_err(|err| match err {
        WriteError::Conflict => Status::already_exists(&call.resource, name),
        failed @ WriteError::Failed(_) => refused(&call.resource, name, failed),
    })?;
    call.core.notice(&call.resource);
    Ok(Written::Stored(stored))
}

/// Takes from a new object what only the API may say of it.
fn wipe(object: &mut Value) {
    let fields = ["resourceVersion", "uid", "creationTimestamp", "selfLink"];
    let deletion = ["deletionTimestamp", "deletionGracePeriodSeconds"];
    fields.into_iter().chain(deletion).for_each(|field| meta::set(object, field, None));
}

/// Refuses objects for a namespace that is not there, or is on its way out.
fn check_namespace(call: &Call, name: &str) -> Answer<()> {
    let Some(namespace) = call.namespace.as_deref().filter(|_| call.resource.namespaced) else {
        return Ok(());
    };
    let served = call.core.registry.served();
    let namespaces = served.find("", "v1", "namespaces").ok_or_else(Status::no_such_resource)?;
    let Some(found) = call.core.store.get(&namespaces.storage, namespace) else {
        return Err(Status::not_found(namespaces, namespace));
    };
    // Most namespaces live, and that shows without reading them.
    if !found.mentions(b"deletionTimestamp")
        || !meta::is_deleting(&convert::value(namespaces, &found))
    {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let cause = json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    });
    Err(Status::forbidden(&call.resource, name, &why).cause(cause))
}

/// Gives an object the namespace of the request, and refuses one that names another.
pub(super) fn match_namespace(call: &Call, object: &mut Value) -> Answer<()> {
    let said = meta::text(object, "namespace").to_owned();
    match call.namespace.as_deref().filter(|_| call.resource.namespaced) {
        None => meta::set(object, "namespace", None),
        Some(wanted) if said.is_empty() || said == wanted => {
            meta::set(object, "namespace", Some(wanted.into()));
        }
        Some(_) => {
            let message = "the namespace of the provided object does not match the namespace sent \
                           on the request";
            return Err(Status::bad_request(message));
        }
    }
    Ok(())
}
