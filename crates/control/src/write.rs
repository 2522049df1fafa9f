//! How is an object changed? By a patch that names the version it was decided on: if there is a newer one, nothing happens.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use crate::Key;
use crate::store::{Entry, Store};

/// Which part of an object a patch changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
}

/// Reaches the objects of a kind in the namespace of `key`.
pub(crate) fn api<K>(client: &Client, key: &Key) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &key.namespace)
}

/// Changes an object as it was seen, and takes the answer into its store.
pub(crate) async fn patch<E>(
    client: &Client,
    store: &Store<E>,
    seen: &E,
    part: Part,
    mut change: Value,
    what: &'static str,
) -> Result<(), Error>
where
    E: Entry,
    E::Object:
        Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug,
{
    let meta = seen.meta();
    let key = Key::of(meta);
    change["metadata"]["uid"] = json!(meta.uid);
    change["metadata"]["resourceVersion"] = json!(meta.resource_version);
    let api: Api<E::Object> = api(client, &key);
    let params = PatchParams::default();
    let answer = match part {
        Part::Whole => api.patch(&key.name, &params, &Patch::Merge(change)).await,
        Part::Status => api.patch_status(&key.name, &params, &Patch::Merge(change)).await,
    };
    match answer.map_err(Error::api(what)) {
        Ok(object) => store.put(object),
        Err(error) if error.is_gone() => store.forget(&key, meta.uid.as_deref()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Deletes an object as it was seen, with all that it owns to follow. One that is gone already is fine.
pub(crate) async fn delete<E>(
    client: &Client,
    store: &Store<E>,
    seen: &E,
    what: &'static str,
) -> Result<(), Error>
where
    E: Entry,
    E::Object:
        Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug,
{
    let meta = seen.meta();
    let key = Key::of(meta);
    let api: Api<E::Object> = api(client, &key);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions { uid: meta.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&key.name, &params).await.map_err(Error::api(what)) {
        // Where something holds it, the answer is the object with its mark.
        Ok(answer) => drop(answer.left().map(|object| store.put(object))),
        Err(error) if error.is_gone() => store.forget(&key, meta.uid.as_deref()),
        Err(error) => return Err(error),
    }
    Ok(())
}
