//! A task group of a Nomad job. Every change names the job's modify index that it was decided on.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::plimsoll::scaling_policy::Nomad;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    Target, TargetError, TargetRef, TargetStatus, Version, read_error, source_error, write_error,
};
use crate::endpoint::HttpAnswer;
use crate::metric_source::SharedConnection;
use crate::nomad::NomadApi;
use crate::registry::Context;

struct NomadTarget {
    group: Nomad,
    api: SharedConnection<NomadApi>,
}

/// The answer of `/v1/job/{id}/scale`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JobScale {
    job_modify_index: u64,
    #[serde(default)]
    job_stopped: bool,
    #[serde(default)]
    task_groups: BTreeMap<String, GroupScale>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct GroupScale {
    desired: u32,
    running: u32,
    healthy: u32,
    unhealthy: u32,
}

/// The answer to a change of the size.
#[derive(Deserialize)]
struct JobRegistered {
    #[serde(rename = "JobModifyIndex")]
    _job_modify_index: u64,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let group = target.spec.nomad.clone().unwrap_or_default();
    for (field, value) in [("job", &group.job), ("group", &group.group)] {
        if value.is_empty() {
            return Err(format!("{field}: required"));
        }
    }
    let api = SharedConnection::new(context, group.source.as_ref(), "nomad", NomadApi::open);
    Ok(Arc::new(NomadTarget { group, api }))
}

impl Target for NomadTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let api = self.api().await?;
            let path = ["v1", "job", &self.group.job, "scale"];
            let job = api.get::<JobScale>(&path, self.namespace()).await;
            let job = job.map_err(|err| read_error(&self.to_string(), &err))?;
            let job = job.ok_or_else(|| self.refused("the job does not exist"))?;
            if job.job_stopped {
                return Err(self.refused("the job is stopped"));
            }
            let group = job.task_groups.get(&self.group.group);
            let group = group.ok_or_else(|| self.refused("the job has no such task group"))?;
            Ok(TargetStatus {
                count: group.desired,
                ready: ready(group),
                version: Version::new(job.job_modify_index.to_string()),
            })
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let api = self.api().await?;
            let index: u64 = version.as_str().parse().unwrap_or(0);
            let body = json!({
                "Count": to, "Target": {"Job": self.group.job, "Group": self.group.group},
                "Message": "scaled by Plimsoll", "Error": false, "PolicyOverride": false, "JobModifyIndex": index,
            });
            let path = ["v1", "job", &self.group.job, "scale"];
            let answer = api.send(&path, self.namespace(), Some(&body)).await;
            self.outcome(&answer.map_err(|err| write_error(&self.to_string(), &err))?)
        })
    }
}

/// Returns how many allocations are ready: those that run, less the ones that a deployment found unhealthy.
fn ready(group: &GroupScale) -> u32 {
    let known = group.healthy + group.unhealthy;
    if known == 0 { group.running } else { group.running.saturating_sub(group.unhealthy) }
}

impl NomadTarget {
    async fn api(&self) -> Result<Arc<NomadApi>, TargetError> {
        self.api.get().await.map_err(|err| source_error(&self.to_string(), err))
    }

    fn namespace(&self) -> Option<&str> {
        self.group.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    fn refused(&self, message: &str) -> TargetError {
        TargetError::Refused { target: self.to_string(), message: message.to_owned() }
    }

    /// Reads an error message of Nomad, which is plain text.
    fn outcome(&self, answer: &HttpAnswer) -> Result<(), TargetError> {
        let text = String::from_utf8_lossy(&answer.body);
        let message: String = text.trim().chars().take(500).collect();
        let target = self.to_string();
        match answer.status.as_u16() {
            200 if answer.json::<JobRegistered>().is_ok() => Ok(()),
            _ if message.contains("conflicting job modify index") => {
                Err(TargetError::Conflict { target, message })
            }
            _ if message.contains("blocked due to active deployment") => {
                Err(TargetError::Unavailable { target, message })
            }
            429 | 503 => Err(TargetError::Unavailable { target, message }),
            400..=499 => Err(TargetError::Refused { target, message }),
            _ if message.contains("job_max_count") => Err(TargetError::Refused { target, message }),
            _ => Err(TargetError::Unknown { target, message }),
        }
    }
}

impl std::fmt::Display for NomadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nomad job {} group {}", self.group.job, self.group.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unhealthy_allocations_are_not_ready() {
        let group =
            |running, healthy, unhealthy| GroupScale { desired: 5, running, healthy, unhealthy };
        assert_eq!(ready(&group(4, 0, 0)), 4);
        assert_eq!(ready(&group(4, 3, 1)), 3);
        assert_eq!(ready(&group(0, 0, 2)), 0);
    }
}
