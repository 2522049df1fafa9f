//! Any object of the cluster with a `scale` subresource: Deployments, Fleets, custom resources.

use std::sync::Arc;

use cluster::error::{api_message, status_code};
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::core::subresource::Scale;
use kube::discovery::pinned_kind;
use kube::error::DiscoveryError;
use serde_json::json;
use tokio::sync::OnceCell;

use super::{Target, TargetError, TargetRef, TargetSize, TargetStatus, Version, object_error};
use crate::registry::Context;

/// The kinds of `apps/v1`, which leave `readyReplicas` out when it is zero.
const APPS: &str = "apps";

pub(crate) struct ScaleTarget {
    client: Client,
    kind: GroupVersionKind,
    namespace: String,
    name: String,
    /// Found by discovery before the first request.
    resource: OnceCell<ApiResource>,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    Ok(Arc::new(ScaleTarget::new(context, target)?))
}

fn read_target(context: &Context, target: &TargetRef) -> Result<ScaleTarget, String> {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let spec = &target.spec;
    let kind = given(&spec.kind).ok_or("kind: required")?;
    Ok(ScaleTarget {
        client: context.client.clone(),
        kind: group_version_kind(given(&spec.api_version).as_deref(), kind)?,
        namespace: target.namespace.clone(),
        name: given(&spec.name).ok_or("name: required")?,
        resource: OnceCell::new(),
    })
}

/// Returns the full name of a kind. Without an `apiVersion` it must be one that is built in.
fn group_version_kind(api_version: Option<&str>, kind: String) -> Result<GroupVersionKind, String> {
    let (group, version) = match api_version {
        Some(text) => text.split_once('/').unwrap_or(("", text)),
        None => match (api::find(None, &kind), kind.as_str()) {
            (Some(found), _) => (found.group, found.version),
            (None, "Deployment" | "ReplicaSet" | "StatefulSet") => (APPS, "v1"),
            (None, _) => return Err(format!("apiVersion: required for the kind `{kind}`")),
        },
    };
    Ok(GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind })
}

impl Target for ScaleTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let api = self.api().await?;
            let read = tokio::try_join!(api.get_scale(&self.name), api.get(&self.name));
            let (scale, object) = read.map_err(|error| self.read_error(&error))?;
            let (count, ready) = (desired(&scale), self.ready(&scale, &object));
            Ok(TargetStatus { count, ready, version: self.version(scale)? })
        })
    }

    /// Reads the `scale` subresource alone, for which no right on the object itself is needed.
    fn size(&self) -> BoxFuture<'_, Result<TargetSize, TargetError>> {
        Box::pin(async move {
            let scale = self.api().await?.get_scale(&self.name).await;
            let scale = scale.map_err(|error| self.read_error(&error))?;
            let count = desired(&scale);
            Ok(TargetSize { count, version: self.version(scale)? })
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let api = self.api().await?;
            let change = json!({
                "metadata": {"resourceVersion": version.as_str()}, "spec": {"replicas": to},
            });
            let params = PatchParams::default();
            let done = api.patch_scale(&self.name, &params, &Patch::Merge(change)).await;
            done.map(drop).map_err(|error| self.write_error(&error))
        })
    }
}

impl ScaleTarget {
    /// Checks the name of an object with a scale subresource. Nothing is sent.
    pub(crate) fn new(context: &Context, target: &TargetRef) -> Result<Self, String> {
        read_target(context, target)
    }

    /// Reads the label selector of the object's pods.
    pub(crate) async fn selector(&self) -> Result<String, TargetError> {
        let scale = self.api().await?.get_scale(&self.name).await;
        let scale = scale.map_err(|error| self.read_error(&error))?;
        let selector = scale.status.and_then(|status| status.selector);
        selector.filter(|selector| !selector.is_empty()).ok_or_else(|| TargetError::Refused {
            target: self.to_string(),
            message: "its scale subresource has no selector, so that its pods are not known".into(),
        })
    }

    async fn api(&self) -> Result<Api<DynamicObject>, TargetError> {
        let resource = self.resource.get_or_try_init(|| self.discover()).await?;
        Ok(Api::namespaced_with(self.client.clone(), &self.namespace, resource))
    }

    async fn discover(&self) -> Result<ApiResource, TargetError> {
        match pinned_kind(&self.client, &self.kind).await {
            Ok((resource, _)) => Ok(resource),
            Err(kube::Error::Discovery(error)) => Err(self.unknown_kind(&error)),
            Err(error) => Err(self.read_error(&error)),
        }
    }

    fn unknown_kind(&self, error: &DiscoveryError) -> TargetError {
        TargetError::Refused { target: self.to_string(), message: error.to_string() }
    }

    /// Returns how many units are ready. Where the kind does not count them, all that exist are.
    fn ready(&self, scale: &Scale, object: &DynamicObject) -> u32 {
        let reported = object.data["status"]["readyReplicas"].as_u64();
        let reported = reported.and_then(|ready| u32::try_from(ready).ok());
        reported.unwrap_or_else(|| {
            let existing = scale.status.as_ref().map_or(0, |status| status.replicas);
            if self.kind.group == APPS { 0 } else { u32::try_from(existing).unwrap_or(0) }
        })
    }

    /// Returns the version. Without one, a change by another client would be overwritten.
    fn version(&self, scale: Scale) -> Result<Version, TargetError> {
        let version = scale.metadata.resource_version.filter(|version| !version.is_empty());
        version.map(Version::new).ok_or_else(|| TargetError::Unavailable {
            target: self.to_string(),
            message: "the answer has no resourceVersion, so that it is not a Scale".to_owned(),
        })
    }

    fn read_error(&self, error: &kube::Error) -> TargetError {
        object_error(self.to_string(), error)
    }

    fn write_error(&self, error: &kube::Error) -> TargetError {
        let (target, message) = (self.to_string(), api_message(error));
        match status_code(error) {
            Some(409) => TargetError::Conflict { target, message },
            Some(429 | 503) => TargetError::Unavailable { target, message },
            Some(400..=407 | 410..=428 | 430..=499) => TargetError::Refused { target, message },
            Some(_) | None => TargetError::Unknown { target, message },
        }
    }
}

impl std::fmt::Display for ScaleTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
    }
}

fn desired(scale: &Scale) -> u32 {
    let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas);
    replicas.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_without_an_api_version_must_be_a_known_one() {
        let found = |api_version, kind: &str| {
            group_version_kind(api_version, kind.to_owned()).map(|kind| kind.api_version())
        };
        assert_eq!(found(Some("apps/v1"), "Deployment").as_deref(), Ok("apps/v1"));
        assert_eq!(found(Some("v1"), "ReplicationController").as_deref(), Ok("v1"));
        assert_eq!(found(None, "Fleet").as_deref(), Ok("agones.dev/v1"));
        assert_eq!(found(None, "StatefulSet").as_deref(), Ok("apps/v1"));
        let refused = found(None, "Widget").unwrap_err();
        assert_eq!(refused, "apiVersion: required for the kind `Widget`");
    }
}
