//! Removes one node: taints it, checks it once more, evicts its pods, has the provider delete the machine, and deletes the Node.
//!
//! Whatever fails, the taint is removed again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::NodeAutoscaler;
use cluster::error::{api_message, status_code};
use cluster::{EventType, Key, Undecoded};
use decide::nodes::{DrainPlan, Evaluation, TO_BE_DELETED_TAINT};
use futures::future::{join_all, try_join_all};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource as _;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Preconditions};
use tokio::time::Instant;

use super::caches::{FleetObjects, Snapshot};
use super::observe;
use super::providers::ProviderGroup;
use super::record::SOURCE;
use super::rival::Rival;
use super::taints::{self, TaintChange};
use crate::context::Context;

/// How long the scheduler has to observe the taint before the pods of the node are read.
const DELAY_AFTER_TAINT: Duration = Duration::from_secs(1);
/// How long an eviction is retried, and how often.
const MAX_EVICTION_TIME: Duration = Duration::from_secs(120);
const EVICTION_RETRY: Duration = Duration::from_secs(1);
/// How much longer than its grace period a pod may take to vanish, and how often that is checked.
const EXTRA_GRACE: Duration = Duration::from_secs(30);
const VANISH_POLL: Duration = Duration::from_millis(100);
/// The grace period of a pod that names none, in seconds.
const DEFAULT_GRACE: i64 = 30;

/// The taints of a removal.
pub(super) const TAINTS: &[&str] = &[TO_BE_DELETED_TAINT, decide::nodes::DELETION_CANDIDATE_TAINT];

/// The removal of one node.
pub(super) struct Removal {
    pub(super) cx: Arc<Context>,
    pub(super) rival: Arc<Rival>,
    pub(super) autoscaler: NodeAutoscaler,
    pub(super) group: ProviderGroup,
    pub(super) node: Node,
    /// All nodes whose removal is in progress, with this one.
    pub(super) removing: BTreeSet<Box<str>>,
    pub(super) max_graceful_termination: SignedDuration,
}

/// How a removal ended.
pub(super) struct RemovalResult {
    pub(super) node: String,
    pub(super) outcome: Result<(), String>,
    /// Whether its taints could not be removed after a failure.
    pub(super) is_tainted: bool,
}

impl Removal {
    /// Removes the node. After a failure its taints are removed.
    pub(super) async fn run(self) -> RemovalResult {
        let node = self.name().to_owned();
        let outcome = self.steps().await;
        let mut is_tainted = false;
        match &outcome {
            Ok(()) => {
                tracing::info!(node, group = self.group.state.id, "node removed");
                self.record(EventType::Normal, "ScaleDown", "node removed by cluster autoscaler");
            }
            Err(cause) => {
                tracing::warn!(node, cause, "removal failed; removing the taints");
                let text = format!("failed to delete the node: {cause}");
                self.record(EventType::Warning, "ScaleDownFailed", &text);
                let remove = TaintChange::Remove(TAINTS);
                if let Err(error) = taints::change(&self.cx.client, &node, remove).await {
                    let error = api_message(&error);
                    tracing::warn!(node, error, "could not remove the taints; will retry");
                    is_tainted = true;
                }
            }
        }
        RemovalResult { node, outcome, is_tainted }
    }

    async fn steps(&self) -> Result<(), String> {
        self.evacuate().await?;
        let at = self.cx.clock.now();
        let taint = TaintChange::Add { key: TO_BE_DELETED_TAINT, effect: "NoSchedule", at };
        let tainted = taints::change(&self.cx.client, self.name(), taint).await;
        tainted.map_err(|error| format!("could not taint it: {}", api_message(&error)))?;
        self.record(EventType::Normal, "ScaleDown", "marked the node as toBeDeleted");
        tokio::time::sleep(DELAY_AFTER_TAINT).await;
        let (pods, daemons) = self.validated().await?;
        // Daemons go with the node; evicting them only lets them shut down cleanly.
        let daemons = join_all(
            daemons.iter().filter(|_| !pods.is_empty()).map(|pod| self.request_eviction(pod)),
        );
        let evicted = try_join_all(pods.iter().map(|pod| self.evict(pod)));
        let (_, evicted) = tokio::join!(daemons, evicted);
        evicted?;
        try_join_all(pods.iter().map(|pod| self.vanished(pod))).await?;
        self.delete().await
    }

    /// Checks the node against the cluster as it is, with its pods read from the API, and returns what to evict.
    async fn validated(&self) -> Result<(Vec<Pod>, Vec<Pod>), String> {
        if let Some(holder) = self.rival.holder(&self.cx).await {
            return Err(format!("a Cluster Autoscaler is active: {holder}"));
        }
        let caches = &self.cx.caches.node_scaling;
        let api: Api<Undecoded<Pod>> = Api::all(self.cx.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={}", self.name()));
        let pods = api.list(&of_node).await;
        let pods =
            pods.map_err(|error| format!("could not list its pods: {}", api_message(&error)))?;
        for pod in &pods.items {
            // Its node stays, because it is not known whether the pod may be evicted. Other nodes can go.
            let unknown = || format!("pod {} cannot be decoded", Key::from_meta(pod.meta()));
            caches.pods.insert(pod.decode().ok_or_else(unknown)?);
        }
        let (snapshot, now) =
            (Snapshot::new(caches, FleetObjects::new(&self.cx)), self.cx.clock.now());
        let sidecar = &self.cx.settings.sidecar;
        let mut observed = observe::observe(&self.autoscaler, &snapshot, sidecar, now)
            .map_err(|error| error.to_string())?;
        observed.status.removing.clone_from(&self.removing);
        let mut evaluation = Evaluation::new(&observed.cluster, &observed.settings, now);
        let plan = evaluation.validate_removal(&observed.status, self.name());
        let DrainPlan { evict, daemons } = plan.map_err(|reason| reason.to_string())?;
        let find = |ids: Vec<usize>| -> Vec<Pod> {
            let names = ids.iter().map(|id| &observed.cluster.pods[*id]);
            let key = |pod: &decide::nodes::Pod| Key::new(&*pod.spec.namespace, &*pod.name);
            names.filter_map(|pod| Some(caches.pods.get(&key(pod))?.0.clone())).collect()
        };
        Ok((find(evict), find(daemons)))
    }

    /// Evicts a pod, within its budgets, and retries for a while.
    async fn evict(&self, pod: &Pod) -> Result<(), String> {
        let deadline = Instant::now() + MAX_EVICTION_TIME;
        let key = Key::from_meta(&pod.metadata);
        loop {
            let error = match self.request_eviction(pod).await {
                Ok(()) => {
                    let text = "deleting pod for node scale down".to_owned();
                    self.cx.events.record(pod, SOURCE, EventType::Normal, "ScaleDown", text);
                    tracing::info!(pod = %key, node = self.name(), "evicted");
                    return Ok(());
                }
                Err(error) => error,
            };
            if Instant::now() + EVICTION_RETRY > deadline {
                return Err(format!("could not evict {key}: {}", api_message(&error)));
            }
            tokio::time::sleep(EVICTION_RETRY).await;
        }
    }

    /// Requests an eviction once. A pod that was deleted or replaced is no error.
    async fn request_eviction(&self, pod: &Pod) -> Result<(), kube::Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.cx.client.clone(), namespace);
        let delete_options = DeleteParams {
            grace_period_seconds: u32::try_from(self.grace(pod)).ok(),
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

    /// Returns the grace period of a pod in seconds, bounded by the settings.
    fn grace(&self, pod: &Pod) -> i64 {
        let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        own.unwrap_or(DEFAULT_GRACE).clamp(0, self.max_graceful_termination.as_secs().max(0))
    }

    /// Waits until an evicted pod is gone.
    async fn vanished(&self, pod: &Pod) -> Result<(), String> {
        let grace = Duration::from_secs(u64::try_from(self.grace(pod)).unwrap_or(0));
        let deadline = Instant::now() + grace + EXTRA_GRACE;
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

    /// Deletes the machine through the provider, and the Node.
    async fn delete(&self) -> Result<(), String> {
        let id = self.node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        let id = id.ok_or_else(|| "it has no providerID".to_owned())?;
        self.group.delete_nodes(&[id]).await?;
        let api: Api<Node> = Api::all(self.cx.client.clone());
        let preconditions =
            Preconditions { uid: self.node.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(self.name(), &params).await {
            Ok(_) => Ok(()),
            // The provider has deleted it.
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => Ok(()),
            Err(error) => {
                // The machine is gone; the Node follows when it is found to be unready.
                let error = api_message(&error);
                tracing::warn!(node = self.name(), error, "could not delete the Node");
                Ok(())
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn record(&self, kind: EventType, reason: &str, text: &str) {
        self.cx.events.record(&self.node, SOURCE, kind, reason, text.to_owned());
    }
}
