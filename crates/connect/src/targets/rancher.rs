//! A service of Rancher 1. Rancher has no versions: the size is read again before it is changed.

use std::sync::Arc;

use api::plimsoll::scaling_policy::Rancher;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Target, TargetError, TargetRef, TargetStatus, Version, outcome, read_error, source_error,
    write_error,
};
use crate::metric_source::SharedConnection;
use crate::rancher::RancherApi;
use crate::registry::Context;

struct RancherTarget {
    service: Rancher,
    api: SharedConnection<RancherApi>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    #[serde(default)]
    state: String,
    removed: Option<String>,
    scale: Option<u32>,
    current_scale: Option<u32>,
    #[serde(default)]
    instance_ids: Option<Vec<String>>,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let service = target.spec.rancher.clone().unwrap_or_default();
    if service.service.is_empty() {
        return Err("service: required".to_owned());
    }
    let api = SharedConnection::new(context, service.source.as_ref(), "rancher", RancherApi::open);
    Ok(Arc::new(RancherTarget { service, api }))
}

impl Target for RancherTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move { self.read().await.map(|(status, _)| status) })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let (status, api) = self.read().await?;
            if status.version != *version {
                let message = format!("its scale is {}", status.count);
                return Err(TargetError::Conflict { target: self.to_string(), message });
            }
            let change = json!({"scale": to, "currentScale": to});
            let answer = api.service(&self.service.service, Some(&change)).await;
            let answer = answer.map_err(|err| write_error(&self.to_string(), &err))?;
            let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let text = ["message", "detail", "code"].iter().find_map(|field| body[field].as_str());
            let message =
                text.map_or_else(|| format!("Rancher answered {}", answer.status), str::to_owned);
            if answer.status.is_success() && !body["id"].is_string() {
                return Err(TargetError::Unknown { target: self.to_string(), message });
            }
            outcome(self.to_string(), answer.status.as_u16(), message)
        })
    }
}

impl RancherTarget {
    async fn read(&self) -> Result<(TargetStatus, Arc<RancherApi>), TargetError> {
        let name = self.to_string();
        let api = self.api.get().await.map_err(|err| source_error(&name, err))?;
        let answer = api.service(&self.service.service, None).await;
        let service = answer.and_then(|answer| answer.success()?.json::<Service>());
        let service = service.map_err(|err| read_error(&name, &err))?;
        let status =
            status(&service).map_err(|message| TargetError::Refused { target: name, message })?;
        Ok((status, api))
    }
}

fn status(service: &Service) -> Result<TargetStatus, String> {
    if service.removed.is_some() || service.state == "removed" {
        return Err("the service has been removed".to_owned());
    }
    let count = service.scale.ok_or("the service has no scale")?;
    let instances =
        service.instance_ids.as_ref().map(|ids| u32::try_from(ids.len()).unwrap_or(u32::MAX));
    let ready = service.current_scale.or(instances).unwrap_or(count);
    Ok(TargetStatus { count, ready, version: Version::new(count.to_string()) })
}

impl std::fmt::Display for RancherTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rancher service {}", self.service.service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_scale_that_was_asked_for() {
        let read = |service: Value| status(&serde_json::from_value(service).unwrap());
        let found = read(json!({"state": "active", "scale": 3, "currentScale": 2})).unwrap();
        assert_eq!((found.count, found.ready, found.version.as_str()), (3, 2, "3"));
        assert!(read(json!({"state": "removed", "scale": 3})).is_err());
        assert_eq!(read(json!({"state": "active"})), Err("the service has no scale".to_owned()));
    }
}
