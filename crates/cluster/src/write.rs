//! Preconditioned writes: a patch names the resource version it was decided on, and a newer object wins.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy, Request};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use crate::Key;
use crate::cache::{Cache, CacheEntry};

/// Which endpoint a patch is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchTarget {
    /// The object itself.
    Object,
    /// Its `status` subresource.
    Status,
}

/// Returns the API of a kind in the namespace of `key`.
pub fn api<K>(client: &Client, key: &Key) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &key.namespace)
}

/// Patches an object at the version that was observed, and inserts the answer into its cache.
pub async fn patch<E>(
    client: &Client,
    cache: &Cache<E>,
    observed: &E,
    target: PatchTarget,
    mut change: Value,
    what: &'static str,
) -> Result<(), Error>
where
    E: CacheEntry,
    E::Object:
        Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug,
{
    let meta = observed.meta();
    let key = Key::from_meta(meta);
    change["metadata"]["uid"] = json!(meta.uid);
    change["metadata"]["resourceVersion"] = json!(meta.resource_version);
    let answer = send_patch::<E::Object>(client, &key, target, &change).await;
    let answer = answer.and_then(|text| cache.decode(text).map_err(kube::Error::SerdeError));
    match answer.map_err(Error::api(what)) {
        Ok(entry) => cache.insert_entry(entry),
        Err(error) if error.is_not_found() => cache.remove(&key, meta.uid.as_deref()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Sends a merge patch, and returns the text of the answer.
async fn send_patch<K>(
    client: &Client,
    key: &Key,
    target: PatchTarget,
    change: &Value,
) -> Result<String, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let request = Request::new(api::<K>(client, key).resource_url());
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    let request = match target {
        PatchTarget::Object => request.patch(&key.name, &params, &patch),
        PatchTarget::Status => request.patch_subresource("status", &key.name, &params, &patch),
    };
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await
}

/// Deletes the object that was observed, and its dependents in the background. It is no error if it no longer exists.
pub async fn delete<E>(
    client: &Client,
    cache: &Cache<E>,
    observed: &E,
    what: &'static str,
) -> Result<(), Error>
where
    E: CacheEntry,
    E::Object:
        Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug,
{
    let meta = observed.meta();
    let key = Key::from_meta(meta);
    let api: Api<E::Object> = api(client, &key);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&key.name, &params).await.map_err(Error::api(what)) {
        // While finalizers hold it, the answer is the object with its deletion timestamp.
        Ok(answer) => drop(answer.left().map(|object| cache.insert(object))),
        Err(error) if error.is_not_found() => cache.remove(&key, meta.uid.as_deref()),
        Err(error) => return Err(error),
    }
    Ok(())
}
