//! What the engine itself does to objects, on nobody's request.
//!
//! The same paths as for clients, so that finalizers, grace periods and watchers are respected; but nothing is reset,
//! and nobody becomes the owner of a field.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::create::{self, Owners};
use super::delete::{self, Options};
use super::form::Form;
use super::query::Query;
use super::{Call, Caller, update};
use crate::core::Core;
use crate::status::Answer;
use crate::store::Parts;
use apimachinery::resource::Resource;
use apimachinery::table::Include;

/// What becomes of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Call {
    /// Makes a request of the engine's own.
    pub(crate) fn internal(
        core: &Arc<Core>,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            resource: Arc::clone(resource),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: None,
            query: Query::default(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            form: Form::JSON,
            include: Include::default(),
            caller: Caller::admin(),
            is_patch: false,
            is_internal: true,
            warnings: Mutex::default(),
        }
    }
}

/// Tells whether something is to be tried again that was refused because nothing could be written, as on a full disk, and
/// waits until it can be: nobody would ask for it a second time.
async fn is_to_try_again<T>(core: &Core, answer: &Answer<T>) -> bool {
    let mut stopping = core.stopping();
    let is_refused = answer.as_ref().is_err_and(|status| status.code == 503);
    if !is_refused || *stopping.borrow() {
        return false;
    }
    tokio::select! {
        () = core.store.until_writable() => true,
        _ = stopping.changed() => false,
    }
}

/// Deletes an object, if it is there and, given its uid, still is that one.
pub(crate) async fn delete(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
    uid: Option<&str>,
    propagation: Propagation,
) {
    let propagation = match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    };
    let options = Options {
        uid: uid.map(str::to_owned),
        propagation: Some(propagation.to_owned()),
        ..Options::default()
    };
    let call = Call::internal(core, resource, namespace, Some(name));
    let deleted = loop {
        let deleted = delete::delete(&call, name, &options).await;
        if !is_to_try_again(core, &deleted).await {
            break deleted;
        }
    };
    if let Err(status) = deleted
        && status.reason != "NotFound"
    {
        tracing::debug!(kind = resource.kind, name, why = status.message, "could not delete");
    }
}

/// Changes an object, if it is there. `edit` sees and changes its metadata and these fields.
pub(crate) async fn change(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
    fields: &[&str],
    edit: impl Fn(&mut Value),
) {
    let call = Call::internal(core, resource, namespace, Some(name));
    let changed = loop {
        let parts = update::parts(&call, Cow::Owned(Parts::whole(fields)));
        let changed = update::change(&call, false, Owners::Noted, parts, |old| {
            let mut object = old.cloned().unwrap_or_default();
            edit(&mut object);
            Ok(object)
        });
        let changed = changed.await;
        if !is_to_try_again(core, &changed).await {
            break changed;
        }
    };
    if let Err(status) = changed
        && status.reason != "NotFound"
    {
        tracing::debug!(kind = resource.kind, name, why = status.message, "could not change");
    }
}

/// Makes an object, unless there is one of that name. Its fields belong to a part of a cluster that would make it.
pub(crate) async fn create(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    manager: &str,
    object: Value,
) {
    let made = loop {
        let made = try_create(core, resource, namespace, manager, object.clone()).await;
        if !is_to_try_again(core, &made).await {
            break made;
        }
    };
    if let Err(status) = made
        && status.reason != "AlreadyExists"
    {
        tracing::debug!(kind = resource.kind, why = status.message, "could not create");
    }
}

async fn try_create(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    manager: &str,
    mut object: Value,
) -> Answer<()> {
    let mut call = Call::internal(core, resource, namespace, None);
    call.query.set("fieldManager", manager);
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    // As if it had been sent: what its kind always has is there, even when it is empty.
    if let Ok(decoded) = apimachinery::schema::decode::value(&object, resource.shape()) {
        object = decoded.value;
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.as_str().into();
    }
    create::match_namespace(&call, &mut object)?;
    create::create(&call, object, Owners::ToBeNoted).await.map(drop)
}
