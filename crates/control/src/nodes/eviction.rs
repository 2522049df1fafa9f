//! Evicts the pods of a node that is being removed, within their budgets and grace periods.

use std::time::Duration;

use cluster::error::{api_message, status_code};
use cluster::{EventType, Key};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};
use tokio::time::Instant;

use super::options::{EvictionStep, Evictions, grace};
use super::record::SOURCE;
use super::removal::Removal;

/// How often an eviction that was refused is requested again.
const RETRY: Duration = Duration::from_secs(1);
/// How much longer than its grace period a pod may take to vanish, and how often that is checked.
const EXTRA_GRACE: Duration = Duration::from_secs(30);
const VANISH_POLL: Duration = Duration::from_millis(100);

impl Removal {
    /// Evicts the pods of the node, step by step, and waits until they are gone.
    pub(super) async fn drain(&self, pods: &[Pod], daemons: &[Pod]) -> Result<(), String> {
        let Evictions { steps, best_effort } = self.options.evictions(pods, daemons);
        let longest = self.options.longest_grace();
        let requested = best_effort.iter().map(|pod| self.request_eviction(pod, longest));
        // They go with the node; evicting them only lets them shut down cleanly.
        let best_effort = join_all(requested.collect::<Vec<_>>());
        let steps = async {
            for step in &steps {
                self.evict_step(step).await?;
            }
            Ok(())
        };
        tokio::join!(steps, best_effort).0
    }

    async fn evict_step(&self, step: &EvictionStep<'_>) -> Result<(), String> {
        try_join_all(step.pods.iter().map(|pod| self.evict(pod, step.max_grace))).await?;
        try_join_all(step.pods.iter().map(|pod| self.vanished(pod, step.max_grace))).await?;
        Ok(())
    }

    /// Evicts a pod, within its budgets, and retries for a while.
    async fn evict(&self, pod: &Pod, max_grace: Duration) -> Result<(), String> {
        let deadline = Instant::now() + self.options.max_eviction_time;
        let key = Key::from_meta(&pod.metadata);
        loop {
            let error = match self.request_eviction(pod, max_grace).await {
                Ok(()) => {
                    self.evicted(pod, "succeeded");
                    tracing::info!(pod = %key, node = self.name(), "evicted");
                    return Ok(());
                }
                Err(error) => error,
            };
            if Instant::now() + RETRY > deadline {
                self.evicted(pod, "failed");
                return Err(format!("could not evict {key}: {}", api_message(&error)));
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Records an eviction in an event and a metric.
    fn evicted(&self, pod: &Pod, result: &str) {
        let (kind, reason, text) = match result {
            "succeeded" => (EventType::Normal, "ScaleDown", "deleting pod for node scale down"),
            _ => (EventType::Warning, "ScaleDownFailed", "failed to delete pod for ScaleDown"),
        };
        self.cx.events.record(pod, SOURCE, kind, reason, text.to_owned());
        let labels = vec![("eviction_result", result.to_owned())];
        self.cx.settings.node_metrics.count("cluster_autoscaler_evicted_pods", labels, 1);
    }

    /// Requests an eviction once. A pod that was deleted or replaced is no error.
    async fn request_eviction(&self, pod: &Pod, max_grace: Duration) -> Result<(), kube::Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.cx.client.clone(), namespace);
        let delete_options = DeleteParams {
            grace_period_seconds: u32::try_from(grace(pod, max_grace).as_secs()).ok(),
            preconditions: Some(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let params = EvictParams { delete_options: Some(delete_options), ..EvictParams::default() };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match api.evict(name, &params).await {
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Waits until an evicted pod is gone.
    async fn vanished(&self, pod: &Pod, max_grace: Duration) -> Result<(), String> {
        let deadline = Instant::now() + grace(pod, max_grace) + EXTRA_GRACE;
        let key = Key::from_meta(&pod.metadata);
        let is_there = || {
            let found = self.cx.caches.node_scaling.pods.get(&key);
            found.is_some_and(|found| found.0.metadata.uid == pod.metadata.uid)
        };
        while is_there() {
            if Instant::now() > deadline {
                return Err(format!("{key} did not end in time"));
            }
            tokio::time::sleep(VANISH_POLL).await;
        }
        Ok(())
    }
}
