//! Writes EndpointSlices and Endpoints.

use cluster::{CachedObject, Error, Key, write};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, Resource};

use super::slices::SlicePlan;
use super::{Controller, legacy};

/// Creates, replaces and deletes slices. A slice that gains endpoints is written before one that loses them is deleted.
pub(super) async fn write_slices(plan: SlicePlan, controller: &Controller) -> Result<(), Error> {
    for slice in plan.create {
        let api = api(&controller.client, &slice.metadata);
        let created = api.create(&PostParams::default(), &slice).await;
        controller.slices.insert(created.map_err(Error::api("create an EndpointSlice"))?);
    }
    for slice in plan.replace {
        let api = api(&controller.client, &slice.metadata);
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let replaced = api.replace(name, &PostParams::default(), &slice).await;
        match replaced.map_err(Error::api("replace an EndpointSlice")) {
            Ok(slice) => controller.slices.insert(slice),
            Err(error) if error.is_not_found() => {
                let key = Key::from_meta(&slice.metadata);
                controller.slices.remove(&key, slice.metadata.uid.as_deref());
            }
            Err(error) => return Err(error),
        }
    }
    for slice in plan.delete {
        let observed = CachedObject(slice);
        let what = "delete an EndpointSlice";
        write::delete(&controller.client, &controller.slices, &observed, what).await?;
    }
    Ok(())
}

/// Creates the Endpoints of a Service, or replaces them where they differ.
pub(super) async fn write_endpoints(
    key: &Key,
    mut wanted: Endpoints,
    controller: &Controller,
) -> Result<(), Error> {
    let api = api(&controller.client, &wanted.metadata);
    let Some(existing) = controller.endpoints.get(key) else {
        let created = api.create(&PostParams::default(), &wanted).await;
        controller.endpoints.insert(created.map_err(Error::api("create Endpoints"))?);
        return Ok(());
    };
    let is_truncated = |endpoints: &Endpoints| {
        let annotations = endpoints.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(legacy::OVER_CAPACITY.0))
    };
    let is_same = existing.subsets.as_deref().unwrap_or_default()
        == wanted.subsets.as_deref().unwrap_or_default()
        && existing.metadata.labels == wanted.metadata.labels
        && is_truncated(&existing) == is_truncated(&wanted);
    if is_same {
        return Ok(());
    }
    wanted.metadata.uid = existing.metadata.uid.clone();
    wanted.metadata.resource_version = existing.metadata.resource_version.clone();
    let replaced = api.replace(&key.name, &PostParams::default(), &wanted).await;
    match replaced.map_err(Error::api("replace Endpoints")) {
        Ok(endpoints) => controller.endpoints.insert(endpoints),
        Err(error) if error.is_not_found() => {
            controller.endpoints.remove(key, existing.metadata.uid.as_deref());
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Deletes the Endpoints of a Service that no longer exists, unless another client wrote them.
pub(super) async fn delete_endpoints(key: &Key, controller: &Controller) -> Result<(), Error> {
    let Some(endpoints) = controller.endpoints.get(key) else { return Ok(()) };
    let (label, controller_name) = legacy::MANAGED_BY;
    let labels = endpoints.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(label)).is_none_or(|name| name != controller_name) {
        return Ok(());
    }
    write::delete(&controller.client, &controller.endpoints, &endpoints, "delete Endpoints").await
}

fn api<K>(client: &Client, meta: &ObjectMeta) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    write::api(client, &Key::from_meta(meta))
}
