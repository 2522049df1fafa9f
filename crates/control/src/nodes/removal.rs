//! Removes one node: taints and cordons it, checks it once more, evicts its pods, has the provider delete the machine, and deletes the
//! Node.
//!
//! Whatever fails, the taint and the cordon are removed again. They also are if the node turns out to be needed: that is no failure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::NodeAutoscaler;
use cluster::error::{api_message, status_code};
use cluster::{EventType, Key, Undecoded};
use decide::Reason as _;
use decide::nodes::{Blocking, DrainPlan, Evaluation, UnremovableReason};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource as _;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use tokio::time::Instant;

use super::batch::{Batches, WholeGroup};
use super::caches::{Additions, Snapshot};
use super::known_pods::KnownPods;
use super::options::RemovalOptions;
use super::providers::ProviderGroup;
use super::record::SOURCE;
use super::rival::Rival;
use super::taints::{self, TaintChange};
use crate::context::Context;
use crate::node_settings::NodeSource;

/// Annotations with this prefix hold the deletion of a node for a while.
const DELAY_DELETION: &str = "delay-deletion.cluster-autoscaler.kubernetes.io/";
/// How often the annotations are looked at.
const DELAY_POLL: Duration = Duration::from_millis(100);

/// The removal of one node.
pub(super) struct Removal {
    pub(super) cx: Arc<Context>,
    pub(super) rival: Arc<Rival>,
    pub(super) additions: Arc<Additions>,
    pub(super) autoscaler: NodeAutoscaler,
    pub(super) options: RemovalOptions,
    pub(super) group: ProviderGroup,
    /// The name of the group.
    pub(super) group_name: String,
    pub(super) batches: Arc<Batches>,
    /// The other nodes of a group that is removed as a whole.
    pub(super) whole: Option<Arc<WholeGroup>>,
    pub(super) node: Node,
    /// Whether the plan is to move pods.
    pub(super) is_drain: bool,
    pub(super) is_ready: bool,
    /// All nodes whose removal is in progress, with this one.
    pub(super) removing: BTreeSet<Box<str>>,
}

/// How a removal ended.
pub(super) struct RemovalResult {
    pub(super) node: String,
    pub(super) group: String,
    pub(super) is_drain: bool,
    pub(super) outcome: Result<(), NotRemoved>,
    /// Whether its taints could not be removed after it ended early.
    pub(super) is_tainted: bool,
}

/// Why a node was not removed after all.
#[derive(Clone, Debug)]
pub(super) enum NotRemoved {
    /// Nothing failed: the node is no longer unneeded.
    Needed(UnremovableReason),
    Failed(String),
}

impl From<String> for NotRemoved {
    fn from(cause: String) -> Self {
        Self::Failed(cause)
    }
}

impl From<UnremovableReason> for NotRemoved {
    /// A game server that came to be used, or that arrived, is what the removal expects; anything else was different when it was planned.
    fn from(reason: UnremovableReason) -> Self {
        use Blocking::{GameServerAllocated, GameServerIdle, GameServerReserved};
        match reason.blocking() {
            Some(GameServerAllocated | GameServerReserved | GameServerIdle) => Self::Needed(reason),
            _ => Self::Failed(reason.to_string()),
        }
    }
}

impl Removal {
    /// Removes the node. If it stays after all, its taints and its cordon are removed.
    pub(super) async fn run(self) -> RemovalResult {
        let node = self.name().to_owned();
        let outcome = self.steps().await;
        let mut is_tainted = false;
        match &outcome {
            Ok(()) => {
                tracing::info!(node, group = self.group_name, "node removed");
                self.record(EventType::Normal, "ScaleDown", "nodes removed by cluster autoscaler");
                self.count();
            }
            Err(cause) => is_tainted = self.cancel(cause).await,
        }
        RemovalResult { node, group: self.group_name, is_drain: self.is_drain, outcome, is_tainted }
    }

    /// Reports why the node stays, and removes its taints and its cordon; returns whether that failed.
    async fn cancel(&self, cause: &NotRemoved) -> bool {
        if let Some(whole) = &self.whole {
            whole.abort(cause);
        }
        let node = self.name();
        match cause {
            NotRemoved::Needed(reason) => {
                let code = reason.blocking().map_or(reason.code(), |blocking| blocking.code());
                tracing::info!(node, reason = code, "the node is no longer unneeded: {reason}");
                let text = format!("the node is no longer unneeded: {reason}");
                self.record(EventType::Normal, "ScaleDown", &text);
            }
            NotRemoved::Failed(cause) => {
                tracing::warn!(node, cause, "removal failed; removing the taints");
                let text = format!("failed to delete the node: {cause}");
                self.record(EventType::Warning, "ScaleDownFailed", &text);
            }
        }
        let abort = TaintChange::Abort { foreign_cordon: self.options.cordon };
        let untainted = taints::change(&self.cx.client, node, abort).await;
        if let Err(error) = &untainted {
            let error = api_message(error);
            tracing::warn!(node, error, "could not remove the taints; will retry");
        }
        untainted.is_err()
    }

    async fn steps(&self) -> Result<(), NotRemoved> {
        self.evacuate().await?;
        let begin = TaintChange::Begin { cordon: self.options.cordon, at: self.cx.clock.now() };
        let tainted = taints::change(&self.cx.client, self.name(), begin).await;
        tainted.map_err(|error| format!("could not taint it: {}", api_message(&error)))?;
        let text = "marked the node as toBeDeleted/unschedulable";
        self.record(EventType::Normal, "ScaleDown", text);
        tokio::time::sleep(self.options.delay_after_taint).await;
        let (pods, daemons) = self.validated().await?;
        self.drain(&pods, &daemons).await?;
        self.deletion_held().await;
        self.delete().await
    }

    /// Checks the node against the cluster as it is, with its pods read from the API, and returns what to evict.
    async fn validated(&self) -> Result<(Vec<Pod>, Vec<Pod>), NotRemoved> {
        if let Some(holder) = self.rival.holder(&self.cx).await {
            return Err(format!("a Cluster Autoscaler is active: {holder}").into());
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
        let mut observed = Snapshot::new(&self.cx, &self.additions)
            .observe(&self.autoscaler, &self.cx, &mut KnownPods::for_once())
            .map_err(|error| error.to_string())?;
        observed.status.removing.clone_from(&self.removing);
        let now = self.cx.clock.now();
        let mut evaluation = Evaluation::new(&observed.cluster, &observed.settings, now);
        let plan = evaluation.validate_removal(&observed.status, self.name());
        let DrainPlan { evict, daemons } = plan?;
        if !self.is_drain && !evict.is_empty() {
            return Err("it was empty, and has pods now".to_owned().into());
        }
        let find = |ids: Vec<usize>| -> Vec<Pod> {
            let names = ids.iter().map(|id| &observed.cluster.pods[*id]);
            let key = |pod: &decide::nodes::Pod| Key::new(&*pod.spec.namespace, &*pod.name);
            names.filter_map(|pod| Some(caches.pods.get(&key(pod))?.0.clone())).collect()
        };
        Ok((find(evict), find(daemons)))
    }

    /// Waits for as long as annotations of the node hold its deletion, but not for ever.
    async fn deletion_held(&self) {
        let deadline = Instant::now() + self.options.max_deletion_delay;
        let key = Key::new("", self.name());
        let is_held = || {
            let node = self.cx.caches.node_scaling.nodes.get(&key)?;
            let annotations = node.0.metadata.annotations.as_ref()?;
            annotations.keys().find(|name| name.starts_with(DELAY_DELETION)).cloned()
        };
        while let Some(annotation) = is_held() {
            if Instant::now() >= deadline {
                tracing::warn!(node = self.name(), annotation, "deletion was held for too long");
                return;
            }
            tokio::time::sleep(DELAY_POLL).await;
        }
    }

    /// Deletes the machine through the provider, and the Node.
    async fn delete(&self) -> Result<(), NotRemoved> {
        let id = self.node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        let id = id.ok_or_else(|| "it has no providerID".to_owned())?;
        match &self.whole {
            Some(whole) => whole.delete(&self.group, id).await?,
            None => {
                let interval = self.options.batch_interval;
                self.batches.delete(&self.group_name, &self.group, id, interval).await?;
            }
        }
        if let NodeSource::Values(_) = self.cx.settings.nodes.source {
            // As with Cluster Autoscaler, whose rights are not enough, the provider or the cloud's controller deletes the Node.
            return Ok(());
        }
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

    fn count(&self) {
        let reason = match (self.is_ready, self.is_drain) {
            (false, _) => "unready",
            (true, false) => "empty",
            (true, true) => "underutilized",
        };
        let metrics = &self.cx.settings.node_metrics;
        metrics.count_nodes("cluster_autoscaler_scaled_down_nodes", Some(reason), 1);
    }

    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn record(&self, kind: EventType, reason: &str, text: &str) {
        self.cx.events.record(&self.node, SOURCE, kind, reason, text.to_owned());
    }
}
