//! Raises groups as planned. A group that fails is backed off, and the plan is made again without it: the pods get the next best
//! group in the same evaluation. A group whose provider does not answer at once counts as growing until it does.

use std::collections::BTreeSet;

use api::plimsoll::NodeAutoscaler;
use cluster::Key;
use decide::nodes::{Evaluation, ScaleUp, ScaleUpUnderWay, Unschedulable};
use tokio::time::Instant;

use super::NodeController;
use super::calls::{Change, EndedCall, Increase};
use super::observe::Observation;
use super::providers::{PATIENCE, ProviderGroups};
use super::record::Note;

/// The result of a scale-up.
#[derive(Default)]
pub(super) struct ScaleUpResult {
    /// The groups that grew.
    pub(super) grown: Vec<GrownGroup>,
    /// The groups that failed, with the cause.
    pub(super) failed: Vec<String>,
    /// The groups whose providers have not answered yet.
    pub(super) waiting: BTreeSet<String>,
    /// The pods that no group helps, after all.
    pub(super) unschedulable: Vec<Unschedulable>,
}

/// A group that grew.
pub(super) struct GrownGroup {
    pub(super) group: String,
    pub(super) increase: Increase,
}

impl ScaleUpResult {
    /// Returns the groups that grow, also those whose providers have not answered yet.
    pub(super) fn growing(&self) -> impl Iterator<Item = &str> {
        let grown = self.grown.iter().map(|grown| grown.group.as_str());
        grown.chain(self.waiting.iter().map(String::as_str))
    }

    /// Whether a provider has accepted a request for nodes.
    pub(super) fn has_grown(&self) -> bool {
        self.growing().next().is_some()
    }
}

impl NodeController {
    /// Carries out a plan of additions, and makes it again without the groups that fail.
    pub(super) async fn grow(
        &mut self,
        autoscaler: &NodeAutoscaler,
        mut plan: ScaleUp,
        observed: &mut Observation,
        groups: &ProviderGroups,
    ) -> ScaleUpResult {
        let mut growth = ScaleUpResult::default();
        for _ in 0..=observed.cluster.groups.len() {
            if plan.resizes.is_empty()
                || !self.increase_all(&plan, observed, groups, &mut growth).await
            {
                break;
            }
            self.answer(autoscaler, observed).await;
            let now = self.cx.clock.now();
            plan = Evaluation::new(&observed.cluster, &observed.settings, now)
                .scale_up_answered(&observed.answers);
        }
        growth.unschedulable = plan.unschedulable;
        growth
    }

    /// Raises all groups of a plan at the same time; returns whether one failed.
    async fn increase_all(
        &mut self,
        plan: &ScaleUp,
        observed: &mut Observation,
        groups: &ProviderGroups,
        growth: &mut ScaleUpResult,
    ) -> bool {
        let (now, deadline) = (self.cx.clock.now(), Instant::now() + PATIENCE);
        let mut waiting = BTreeSet::new();
        for resize in &plan.resizes {
            let keys = resize.nodes.iter().flatten().map(|pod| {
                let pod = &observed.cluster.pods[*pod];
                Key::new(&*pod.spec.namespace, &*pod.name)
            });
            let pods = keys.collect();
            let group = &mut observed.cluster.groups[resize.group];
            let (name, by) = (group.name.to_string(), resize.to - resize.from);
            let memory = self.memory.group(&name);
            let before = memory.scale_up.map_or(0, |under_way| under_way.increase);
            let under_way = ScaleUpUnderWay { at: now, increase: before + by };
            memory.scale_up = Some(under_way);
            (group.status.target, group.status.scale_up) = (Some(resize.to), Some(under_way));
            let increase = Increase { from: resize.from, to: resize.to, max: group.max, pods };
            let found = groups.get(&name).cloned();
            self.calls.start(&name, Change::Increase(increase), async move {
                match found {
                    Some(group) => group?.increase(by).await,
                    None => Err("it has no provider".to_owned()),
                }
            });
            waiting.insert(name);
        }
        let failed_before = growth.failed.len();
        while !waiting.is_empty()
            && let Some(ended) = self.calls.next_until(deadline).await
        {
            waiting.remove(&ended.group);
            self.increase_ended(ended, observed, growth);
        }
        for name in &waiting {
            tracing::warn!(group = name, "the provider has not answered yet; going on without it");
        }
        growth.waiting.extend(waiting);
        growth.failed.len() > failed_before
    }

    /// Records the outcome of an awaited call.
    fn increase_ended(
        &mut self,
        ended: EndedCall,
        observed: &mut Observation,
        growth: &mut ScaleUpResult,
    ) {
        let (name, outcome) = (ended.group.clone(), ended.outcome.clone());
        let Change::Increase(increase) = ended.change.clone() else {
            self.call_ended(ended);
            return;
        };
        self.call_ended(ended);
        match outcome {
            Ok(()) => growth.grown.push(GrownGroup { group: name, increase }),
            Err(cause) => {
                let memory = self.memory.group(&name);
                let mut groups = observed.cluster.groups.iter_mut();
                if let Some(group) = groups.find(|group| *group.name == *name) {
                    group.status.target = Some(increase.from);
                    group.status.scale_up = memory.scale_up;
                    group.status.backoff_until = memory.backoff.as_ref().map(|b| b.until);
                }
                growth.failed.push(format!("Scale-up failed for group {name}: {cause}"));
            }
        }
    }

    /// Records the outcome of a call in memory, in events and in the log.
    pub(super) fn call_ended(&mut self, ended: EndedCall) {
        let EndedCall { group: name, change, outcome } = ended;
        if outcome.is_err() {
            self.cx.settings.node_metrics.count_error("cloudProviderError");
        }
        match (change, outcome) {
            (Change::Increase(increase), Ok(())) => self.increased(&name, &increase),
            (Change::Increase(increase), Err(cause)) => {
                self.increase_failed(&name, &increase, &cause);
            }
            (
                Change::Decrease { .. } | Change::DeleteFailed | Change::DeleteUnregistered,
                Ok(()),
            ) => {}
            (Change::Decrease { by }, Err(error)) => {
                let text = format!("could not lower the target of group {name} by {by}: {error}");
                self.about_group(&name, Note::warning("FailedToRevertScaleUp", text));
            }
            (Change::DeleteFailed, Err(error)) => {
                tracing::warn!(
                    group = name,
                    error,
                    "could not delete failed instances; will retry"
                );
            }
            (Change::DeleteUnregistered, Err(error)) => {
                let text =
                    format!("could not delete instances of group {name} without a node: {error}");
                self.about_group(&name, Note::warning("DeleteUnregisteredFailed", text));
            }
        }
    }

    fn increased(&mut self, name: &str, increase: &Increase) {
        let Increase { from, to, max, .. } = increase;
        let metrics = &self.cx.settings.node_metrics;
        metrics.active("scaleUp", self.cx.clock.now());
        let new = to.saturating_sub(*from) as usize;
        metrics.count_nodes("cluster_autoscaler_scaled_up_nodes", None, new);
        tracing::info!(group = name, from, to, "scale-up");
        let text =
            format!("Scale-up: group {name} size set to {to} instead of {from} (max: {max})");
        self.about_group(name, Note::normal("ScaledUpGroup", text));
    }

    /// Counts a scale-up that failed, with the reason that Cluster Autoscaler counts.
    pub(super) fn count_failed_scale_up(&self, reason: &str) {
        let metrics = &self.cx.settings.node_metrics;
        metrics.count_nodes("cluster_autoscaler_failed_scale_ups", Some(reason), 1);
    }

    fn increase_failed(&mut self, name: &str, increase: &Increase, cause: &str) {
        let now = self.cx.clock.now();
        self.memory.group(name).forget_increase(increase.to - increase.from);
        self.memory.back_off(name, cause, now);
        self.count_failed_scale_up("cloudProviderError");
        let text = format!("Scale-up failed for group {name}: {cause}");
        self.about_group(name, Note::warning("FailedToScaleUpGroup", text));
    }
}
