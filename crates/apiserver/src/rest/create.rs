//! Creates objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::write::NotStored;
use super::{Call, Reply, convert, decode, meta, owner, refusal, service_addresses, strategy};
use crate::definitions;
use crate::status::{ApiResult, Status};
use crate::store::{Body, Object, Write};

/// How many generated names are tried, as by kube-apiserver.
const NAMES: usize = 8;

/// The result of a write.
pub(super) enum Written {
    /// The object is stored.
    Stored(Object),
    /// Nothing is stored: the object as it would have been.
    WouldBe(Value),
}

/// Whether the `managedFields` of a written object are up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// They are: it was applied, or needs no owner.
    Recorded,
    /// The manager of the request owns what it changes.
    ToRecord,
}

impl Written {
    pub(super) fn reply(&self, call: &Call, code: u16) -> Reply {
        match self {
            // What was just written can be read.
            Self::Stored(object) => {
                call.show(code, object).unwrap_or_else(|status| refusal(&status))
            }
            Self::WouldBe(value) => call.show_value(code, value),
        }
    }
}

/// Creates the object in the request.
pub(super) async fn answer(call: &Call) -> ApiResult<Reply> {
    let mut object = decode::object(call)?;
    match_namespace(call, &mut object)?;
    let written = create(call, object, Owners::ToRecord).await?;
    Ok(written.reply(call, 201))
}

/// Creates an object; completes its name if it has only `generateName`.
pub(super) async fn create(call: &Call, object: Value, owners: Owners) -> ApiResult<Written> {
    let base = meta::text(&object, "generateName").to_owned();
    let is_generated = meta::text(&object, "name").is_empty() && !base.is_empty();
    if !is_generated {
        return create_named(call, object, owners).await;
    }
    create_generated(call, object, owners, || meta::generated_name(&base, &call.core.random)).await
}

/// Creates an object under the first name that is not taken.
async fn create_generated(
    call: &Call,
    object: Value,
    owners: Owners,
    name: impl Fn() -> String,
) -> ApiResult<Written> {
    let mut taken = String::new();
    for _ in 0..NAMES {
        taken = name();
        let mut object = object.clone();
        meta::set(&mut object, "name", Some(taken.as_str().into()));
        match create_named(call, object, owners).await {
            Err(status) if status.reason == "AlreadyExists" => {}
            done => return done,
        }
    }
    let mut status = Status::already_exists(&call.resource, &taken);
    status.message += ", the server was not able to generate a unique name for the object";
    Err(status.retry_after(1))
}

async fn create_named(call: &Call, mut object: Value, owners: Owners) -> ApiResult<Written> {
    let is_applied = owners == Owners::Recorded;
    if !is_applied && !matches!(meta::text(&object, "resourceVersion"), "" | "0") {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(500, "", why));
    }
    wipe(&mut object);
    strategy::complete(call, &mut object, None)?;
    if !is_applied {
        owner::record_create(call, &mut object);
    }
    meta::set(&mut object, "uid", Some(call.core.random.uuid().to_string().into()));
    meta::set(&mut object, "creationTimestamp", Some(meta::time(call.core.clock.now())));
    check_namespace(call, meta::text(&object, "name"))?;
    let _lock = service_addresses::lock(call).await;
    strategy::create(call, &mut object)?;
    let name = meta::text(&object, "name").to_owned();
    store_new(call, &name, object).await
}

/// Stores a complete object, unless there is one of that name.
pub(super) async fn store_new(call: &Call, name: &str, object: Value) -> ApiResult<Written> {
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
    let stored = call.write(&call.resource, name, None, write).await.map_err(|err| match err {
        NotStored::Conflict => Status::already_exists(&call.resource, name),
        NotStored::Refused(status) => status,
    })?;
    definitions::on_write(&call.core, &call.resource);
    Ok(Written::Stored(stored))
}

/// Removes the fields of a new object that only the API server sets.
fn wipe(object: &mut Value) {
    let fields = ["resourceVersion", "uid", "creationTimestamp", "selfLink"];
    let deletion = ["deletionTimestamp", "deletionGracePeriodSeconds"];
    fields.into_iter().chain(deletion).for_each(|field| meta::set(object, field, None));
}

/// Refuses objects for a namespace that does not exist, or is being deleted.
fn check_namespace(call: &Call, name: &str) -> ApiResult<()> {
    let Some(namespace) = call.namespace.as_deref().filter(|_| call.resource.namespaced) else {
        return Ok(());
    };
    let served = call.core.registry.served();
    let namespaces = served.find("", "v1", "namespaces").ok_or_else(Status::no_such_resource)?;
    let Some(found) = call.core.store.get(&namespaces.storage, namespace) else {
        return Err(Status::not_found(namespaces, namespace));
    };
    // Most namespaces are not being deleted, which shows without parsing them.
    let is_terminating = || convert::value(namespaces, &found).is_ok_and(|n| meta::is_deleting(&n));
    if !found.mentions(b"deletionTimestamp") || !is_terminating() {
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

/// Sets the namespace of the request in an object, and refuses one that names another.
pub(super) fn match_namespace(call: &Call, object: &mut Value) -> ApiResult<()> {
    let given = meta::text(object, "namespace").to_owned();
    match call.namespace.as_deref().filter(|_| call.resource.namespaced) {
        None => meta::set(object, "namespace", None),
        Some(wanted) if given.is_empty() || given == wanted => {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{ApiServer, Settings};

    #[tokio::test]
    async fn a_generated_name_that_is_taken_is_tried_again_and_never_overwritten() {
        let engine = ApiServer::open(Settings::ephemeral()).await.unwrap();
        let served = engine.core.registry.served();
        let maps = served.find("", "v1", "configmaps").unwrap();
        let call = Call::internal(&engine.core, maps, Some("default"), None);
        let tried = Cell::new(0);
        // Each name comes three times.
        let name = || {
            tried.set(tried.get() + 1);
            format!("map-{}", (tried.get() - 1) / 3)
        };
        let make = |data: &str| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": data},
                "metadata": {"generateName": "map-", "namespace": "default"}});
            create_generated(&call, object, Owners::ToRecord, name)
        };
        let name_of = |made: ApiResult<Written>| match made {
            Ok(Written::Stored(object)) => {
                let value = object.value("v1", "ConfigMap").unwrap();
                Ok((value["metadata"]["name"].clone(), value["data"]["a"].clone()))
            }
            Ok(Written::WouldBe(_)) => panic!("it was to be stored"),
            Err(status) => Err((status.code, status.reason, status.message)),
        };
        assert_eq!(name_of(make("1").await), Ok((json!("map-0"), json!("1"))));
        assert_eq!(name_of(make("2").await), Ok((json!("map-1"), json!("2"))));
        let first = engine.core.store.get("configmaps", "default/map-0").unwrap();
        assert_eq!(first.value("v1", "ConfigMap").unwrap()["data"]["a"], "1");
        let taken = || "map-0".to_owned();
        let object = json!({"metadata": {"generateName": "map-", "namespace": "default"}});
        let refused = create_generated(&call, object, Owners::ToRecord, taken).await;
        let why = "configmaps \"map-0\" already exists, the server was not able to generate a unique name for the object";
        assert_eq!(name_of(refused), Err((409, "AlreadyExists", why.to_owned())));
    }
}
