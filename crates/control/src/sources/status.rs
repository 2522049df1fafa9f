//! The status of MetricSources: whether they can be reached, and when they were last queried.

use std::sync::Arc;

use api::plimsoll::MetricSource;
use api::plimsoll::metric_source::MetricSourceStatus;
use cluster::{Error, Key, RequeueAt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Sources;

/// The shortest time between two writes of `lastQueryAt`.
const EVERY: SignedDuration = SignedDuration::from_secs(60);
/// The most statuses that are written at a time.
const PARALLEL: usize = 4;

/// The result of the newest query, and when it was written to the status.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// The newest query and its result.
    newest: Option<(Timestamp, Result<(), String>)>,
    /// When a write of the status was last requested.
    requested_at: Option<Timestamp>,
}

impl Health {
    /// Records a result, and returns whether the status is to be written.
    pub(super) fn record(&mut self, at: Timestamp, result: Result<(), String>) -> bool {
        let was_reached = self.newest.as_ref().map(|(_, result)| result.is_ok());
        let has_changed = was_reached != Some(result.is_ok());
        self.newest = Some((at, result));
        let is_due =
            self.requested_at.is_none_or(|requested_at| at.duration_since(requested_at) >= EVERY);
        if has_changed || is_due {
            self.requested_at = Some(at);
        }
        has_changed || is_due
    }

    /// Returns the error of the newest query.
    pub(super) fn problem(&self) -> &str {
        match &self.newest {
            Some((_, Err(problem))) => problem,
            Some((_, Ok(()))) | None => "it does not answer",
        }
    }
}

impl Sources {
    /// Writes the statuses of sources for as long as it is polled.
    pub(crate) async fn write_statuses(self: Arc<Self>) {
        let write = |key: Key| {
            let all = Arc::clone(&self);
            async move { all.write_status(&key).await }
        };
        self.statuses.run(PARALLEL, write).await;
    }

    async fn write_status(&self, key: &Key) -> Result<RequeueAt, Error> {
        let Some(object) = self.caches.sources.get(key) else { return Ok(None) };
        let source = self.open().get(&*key.name).map(|entry| Arc::clone(&entry.source));
        let Some((at, result)) = source.and_then(|source| source.health().newest) else {
            return Ok(None);
        };
        let status = status(&object, at, result);
        let change = json!({"metadata": {"uid": object.metadata.uid}, "status": status});
        let api: Api<MetricSource> = Api::all(self.connect.client.clone());
        let params = PatchParams::default();
        match api.patch_status(&key.name, &params, &Patch::Merge(change)).await {
            Ok(written) => self.caches.sources.insert(written),
            Err(error) => {
                let error = Error::api("write the source's status")(error);
                if !error.is_not_found() && !error.is_conflict() {
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}

fn status(object: &MetricSource, at: Timestamp, result: Result<(), String>) -> MetricSourceStatus {
    let (status, reason, message) = match result {
        Ok(()) => ("True", "Answered", String::new()),
        Err(problem) => ("False", "Failed", problem),
    };
    let old = object.status.iter().flat_map(|status| &status.conditions);
    let same = old.into_iter().find(|c| c.type_ == "Reachable" && c.status == status);
    let since = same.map_or(Time(at), |condition| condition.last_transition_time.clone());
    let condition = Condition {
        type_: "Reachable".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: object.metadata.generation,
    };
    MetricSourceStatus { conditions: vec![condition], last_query_at: Some(Time(at)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_when_it_changes_and_once_a_minute() {
        let mut health = Health::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let failed = || Err("refused".to_owned());
        for (second, result, is_written) in [
            (0, Ok(()), true),
            (10, Ok(()), false),
            (20, failed(), true),
            (30, failed(), false),
            (79, failed(), false),
            (80, failed(), true),
            (90, Ok(()), true),
        ] {
            assert_eq!(health.record(at(second), result), is_written, "at {second}");
        }
    }
}
