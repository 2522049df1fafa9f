//! Writes of the API server itself, such as those of its controllers.
//!
//! They take the same path as those of clients, so that finalizers, grace periods and watchers are respected; but no field is
//! reset, and no field manager is recorded.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::create::{self, Owners};
use super::delete::{self, Options};
use super::form::Form;
use super::query::Query;
use super::{Call, Caller, update};
use crate::core::Core;
use crate::status::ApiResult;
use crate::store::Parts;
use apimachinery::resource::Resource;
use apimachinery::table::Include;

/// How often a refused write is sent again.
const MOST_RETRIES: u32 = 12;
/// The delay before the first retry; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// The longest delay before a retry.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The propagation of a deletion to the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Call {
    /// Creates a request of the API server itself.
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

/// Retries a write that was refused because the store could not be written, as on a full disk: no client would send it again.
#[derive(Default)]
struct Retries {
    count: u32,
}

impl Retries {
    /// Whether the write is to be sent again. If so, waits until the store can be written, and longer with each retry: a store
    /// that is closed counts as writable, and refuses every write.
    async fn is_to_retry<T>(&mut self, core: &Core, answer: &ApiResult<T>) -> bool {
        let mut stopping = core.stopping();
        let Some(status) = answer.as_ref().err().filter(|status| status.code == 503) else {
            return false;
        };
        if *stopping.borrow() {
            return false;
        }
        if self.count == MOST_RETRIES {
            tracing::warn!(retries = self.count, error = status.message, "giving up on a write");
            return false;
        }
        let longest = FIRST_RETRY.saturating_mul(1 << self.count).min(LONGEST_RETRY);
        let delay = longest.mul_f64(0.5 + core.random.fraction() / 2.0);
        self.count += 1;
        let writable = async {
            core.store.until_writable().await;
            tokio::time::sleep(delay).await;
        };
        tokio::select! {
            () = writable => true,
            _ = stopping.changed() => false,
        }
    }
}

/// Deletes an object, if it exists and has the uid, if one is given.
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
    let mut retries = Retries::default();
    let deleted = loop {
        let deleted = delete::delete(&call, name, &options).await;
        if !retries.is_to_retry(core, &deleted).await {
            break deleted;
        }
    };
    if let Err(status) = deleted
        && status.reason != "NotFound"
    {
        tracing::debug!(kind = resource.kind, name, why = status.message, "could not delete");
    }
}

/// Changes an object, if it exists. `edit` reads and changes its metadata and these fields; the others may not be parsed.
pub(crate) async fn change(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
    fields: &[&str],
    edit: impl Fn(&mut Value),
) {
    let call = Call::internal(core, resource, namespace, Some(name));
    let mut retries = Retries::default();
    let changed = loop {
        let parts = update::parts(&call, Cow::Owned(Parts::whole(fields)));
        let changed = update::change(&call, false, Owners::Recorded, parts, |old| {
            let mut object = old.cloned().unwrap_or_default();
            edit(&mut object);
            Ok(object)
        });
        let changed = changed.await;
        if !retries.is_to_retry(core, &changed).await {
            break changed;
        }
    };
    if let Err(status) = changed
        && status.reason != "NotFound"
    {
        tracing::debug!(kind = resource.kind, name, why = status.message, "could not change");
    }
}

/// Creates an object, unless there is one of that name. Its fields belong to the component that creates it in a real cluster.
pub(crate) async fn create(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    manager: &str,
    object: Value,
) {
    let mut retries = Retries::default();
    let made = loop {
        let made = try_create(core, resource, namespace, manager, object.clone()).await;
        if !retries.is_to_retry(core, &made).await {
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
) -> ApiResult<()> {
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
    create::create(&call, object, Owners::ToRecord).await.map(drop)
}
