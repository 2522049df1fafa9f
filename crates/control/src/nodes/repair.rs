//! Repairs groups: releases requested machines that failed, are late or never registered.

use std::collections::{BTreeMap, BTreeSet};

use connect::providers::Group as ProvidedGroup;
use decide::nodes::{Group, Readiness, ScaleUpUnderWay, Settings, readiness};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::NodeController;
use super::calls::Change;
use super::memory::Memory;
use super::observe::Observation;
use super::providers::{PATIENCE, ProviderGroup, ProviderGroups};
use super::record::Note;
use super::taints;

/// For how long a group whose provider does not answer is not scaled up; the provider is queried again in each evaluation.
const PAUSED: SignedDuration = SignedDuration::from_mins(1);

/// The nodes of a group that exist.
struct Registered {
    ids: BTreeSet<String>,
    /// How many are past their start.
    started: u32,
    all: u32,
}

impl NodeController {
    /// Compares each group's machines with its nodes; returns whether a change was requested from a provider. At most one change of
    /// a group is in flight.
    pub(super) async fn repair(&mut self, observed: &Observation, groups: &ProviderGroups) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut waiting = BTreeSet::new();
        for (name, group) in groups {
            let Ok(group) = group else { continue };
            if self.calls.in_flight(name).is_some() {
                continue;
            }
            let registered = self.registered(name, observed);
            self.note_progress(name, group, &registered);
            if self.give_up_failed(name, group)
                || self.give_up_late(name, group, &registered, observed)
                || self.delete_unregistered(name, group, &registered, observed)
            {
                waiting.insert(name.clone());
            }
        }
        let is_changed = !waiting.is_empty();
        while !waiting.is_empty()
            && let Some(ended) = self.calls.next_until(deadline).await
        {
            waiting.remove(&ended.group);
            self.call_ended(ended);
        }
        is_changed
    }

    /// Finds the taints that an earlier controller left behind on the nodes of groups that are known for the first time.
    pub(super) fn adopt(&mut self, groups: &ProviderGroups) {
        let is_known = |memory: &Memory, name: &str| {
            memory.groups.get(name).is_some_and(|group| group.is_adopted)
        };
        let new =
            groups.iter().filter(|(name, group)| group.is_ok() && !is_known(&self.memory, name));
        let new: BTreeSet<&str> = new.map(|(name, _)| name.as_str()).collect();
        if new.is_empty() {
            return;
        }
        for node in self.cx.caches.node_scaling.nodes.all() {
            let is_new = self.additions.group_of(&node.0).is_some_and(|name| new.contains(name));
            if is_new && taints::is_being_removed(&node.0) {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                self.memory.tainted.insert(name.into());
            }
        }
    }

    fn registered(&self, name: &str, observed: &Observation) -> Registered {
        let now = self.cx.clock.now();
        let of_group =
            observed.cluster.nodes.iter().filter(|node| node.group.as_deref() == Some(name));
        let mut found = Registered { ids: BTreeSet::new(), started: 0, all: 0 };
        for node in of_group {
            found.all += 1;
            let is_started = readiness(node, &observed.settings, now) != Readiness::Starting;
            found.started += u32::from(is_started);
        }
        let nodes = self.cx.caches.node_scaling.nodes.all();
        for node in nodes.iter().filter(|node| self.additions.group_of(&node.0) == Some(name)) {
            found.ids.extend(node.0.spec.as_ref().and_then(|spec| spec.provider_id.clone()));
        }
        found
    }

    /// Records whether a scale-up is complete. One that a restarted controller does not know counts as started now.
    fn note_progress(&mut self, name: &str, group: &ProviderGroup, registered: &Registered) {
        let (now, target) = (self.cx.clock.now(), group.state.target);
        let missing = target.saturating_sub(registered.started);
        let memory = self.memory.group(name);
        let is_first = !std::mem::replace(&mut memory.is_adopted, true);
        if missing == 0 {
            if let Some(done) = memory.scale_up.take() {
                memory.note_provision_time(now.duration_since(done.at));
            }
        } else if is_first && memory.scale_up.is_none() {
            memory.scale_up = Some(ScaleUpUnderWay { at: now, increase: missing });
        }
        let is_short = target > registered.all && memory.scale_up.is_none();
        memory.short_since = is_short.then(|| memory.short_since.unwrap_or(now));
    }

    /// Deletes instances that cannot be created, and backs the group off.
    fn give_up_failed(&mut self, name: &str, group: &ProviderGroup) -> bool {
        let failed = group.state.instances.iter().filter_map(|i| Some((i, i.error.as_ref()?)));
        let failed: Vec<_> = failed.collect();
        let Some((_, first)) = failed.first() else { return false };
        let (now, count) = (self.cx.clock.now(), u32::try_from(failed.len()).unwrap_or(u32::MAX));
        let kind = if first.is_out_of_resources { "out of resources" } else { "failed to start" };
        let cause = format!("{count} instances {kind}: {}", first.message);
        let ids: Vec<String> = failed.iter().map(|(instance, _)| instance.id.clone()).collect();
        let memory = self.memory.group(name);
        let is_new = ids.iter().any(|id| !memory.failed.contains(id));
        memory.failed = ids.iter().cloned().collect();
        if is_new {
            memory.forget_increase(count);
            self.memory.back_off(name, &cause, now);
            let reason = if first.is_out_of_resources { "OutOfResource" } else { "Other" };
            let metrics = &self.cx.settings.node_metrics;
            let labels = vec![("reason", reason.to_owned())];
            metrics.count("cluster_autoscaler_failed_node_creations", labels, ids.len());
            self.count_failed_scale_up(reason);
            self.about_group(name, Note::warning("ScaleUpFailed", cause));
        }
        let group = group.clone();
        let deletion = async move { group.delete_nodes(&ids).await };
        self.calls.start(name, Change::DeleteFailed, deletion);
        true
    }

    /// Cancels machines that did not appear in time.
    fn give_up_late(
        &mut self,
        name: &str,
        group: &ProviderGroup,
        registered: &Registered,
        observed: &Observation,
    ) -> bool {
        let now = self.cx.clock.now();
        let limit = provision_time(name, &group.state, observed);
        let is_over = |since: Timestamp| now.duration_since(since) > limit;
        let memory = self.memory.group(name);
        let late = memory.scale_up.filter(|under_way| is_over(under_way.at));
        let is_short = memory.short_since.is_some_and(is_over);
        if late.is_none() && !is_short {
            return false;
        }
        (memory.scale_up, memory.short_since) = (None, None);
        if let Some(under_way) = late {
            let cause = format!(
                "{} nodes did not register within {} s",
                under_way.increase,
                limit.as_secs()
            );
            self.memory.back_off(name, &cause, now);
            self.count_failed_scale_up("timeout");
            self.about_group(name, Note::warning("ScaleUpTimedOut", cause));
        }
        let by = group.state.target.saturating_sub(registered.all);
        if by == 0 {
            return false;
        }
        tracing::info!(group = name, by, "lowering the target to the nodes that exist");
        let group = group.clone();
        let decrease = async move { group.decrease_target(by).await };
        self.calls.start(name, Change::Decrease { by }, decrease);
        true
    }

    /// Deletes instances that have had no Node for too long, as far as the group's minimum allows.
    fn delete_unregistered(
        &mut self,
        name: &str,
        group: &ProviderGroup,
        registered: &Registered,
        observed: &Observation,
    ) -> bool {
        let without_node = group.state.instances.iter().filter(|instance| {
            let is_running = instance.state == connect::providers::InstanceState::Running;
            is_running && instance.error.is_none() && !registered.ids.contains(&instance.id)
        });
        let without_node: BTreeSet<String> = without_node.map(|i| i.id.clone()).collect();
        let limit = provision_time(name, &group.state, observed);
        let now = self.cx.clock.now();
        let mut late = self.memory.group(name).long_unregistered(&without_node, limit, now);
        late.truncate(group.state.target.saturating_sub(group.state.min) as usize);
        if late.is_empty() {
            return false;
        }
        let text = format!("deleting {} instances of group {name} that have no node", late.len());
        let counter = "cluster_autoscaler_old_unregistered_nodes_removed_count";
        self.cx.settings.node_metrics.count(counter, Vec::new(), late.len());
        self.about_group(name, Note::warning("DeleteUnregistered", text));
        let group = group.clone();
        let deletion = async move { group.delete_nodes(&late).await };
        self.calls.start(name, Change::DeleteUnregistered, deletion);
        true
    }

    /// Overlays the observation with the state of the providers and of the controller.
    pub(super) fn overlay(&mut self, observed: &mut Observation, groups: &ProviderGroups) {
        let now = self.cx.clock.now();
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for name in observed.cluster.nodes.iter().filter_map(|node| node.group.as_deref()) {
            *counts.entry(name).or_default() += 1;
        }
        for group in &mut observed.cluster.groups {
            let memory = self.memory.group(&group.name);
            group.status.scale_up = memory.scale_up;
            group.status.backoff_until = memory.backoff.as_ref().map(|backoff| backoff.until);
            memory.problem = match groups.get(&*group.name) {
                Some(Ok(found)) => {
                    describe(group, &found.state);
                    None
                }
                Some(Err(problem)) => {
                    self.cx.settings.node_metrics.count_error("cloudProviderError");
                    Some(problem.clone())
                }
                None => Some("it has no provider".to_owned()),
            };
            if let Some(target) = self.calls.in_flight(&group.name) {
                group.status.target = group.status.target.max(target);
                let unanswered = || "the provider does not answer a request".to_owned();
                memory.problem.get_or_insert_with(unanswered);
            }
            if memory.problem.is_some() {
                group.status.backoff_until = Some(now.saturating_add(PAUSED).unwrap_or(now));
                // Nothing is removed from a group that cannot be scaled.
                let present = counts.get(&*group.name).copied().unwrap_or(0);
                group.min = group.min.max(group.status.target.unwrap_or(present));
            }
        }
    }

    /// Returns the next time at which a deadline of a group is over.
    pub(super) fn next_deadline(&self, settings: &Settings) -> Option<Timestamp> {
        let limit = settings.scale_up.max_provision_time;
        let after = |at: Timestamp| at.saturating_add(limit).unwrap_or(Timestamp::MAX);
        let of_group = |group: &super::memory::GroupMemory| {
            let backoff = group.backoff.as_ref().map(|backoff| backoff.until);
            let scale_up = group.scale_up.map(|under_way| after(under_way.at));
            let short = group.short_since.map(after);
            let unregistered = group.unregistered.values().min().map(|at| after(*at));
            [backoff, scale_up, short, unregistered].into_iter().flatten().collect::<Vec<_>>()
        };
        let now = self.cx.clock.now();
        self.memory.groups.values().flat_map(of_group).filter(|at| *at > now).min()
    }
}

/// Adds what the provider knows about a group; what its NodeGroup says takes precedence.
fn describe(group: &mut Group, found: &ProvidedGroup) {
    group.status.target = Some(found.target);
    if group.template.is_none() {
        group.template.clone_from(&found.template);
    }
    group.options = group.options.or(&found.options);
    group.price = group.price.or(found.price);
    group.all_or_nothing |= found.all_or_nothing;
    group.is_rolling_out = found.is_rolling_out;
}

/// Returns how long a requested machine of a group may take to appear.
fn provision_time(name: &str, found: &ProvidedGroup, observed: &Observation) -> SignedDuration {
    let own = observed.cluster.groups.iter().find(|group| *group.name == *name);
    let own = own.and_then(|group| group.options.max_provision_time);
    own.or(found.options.max_provision_time)
        .unwrap_or(observed.settings.scale_up.max_provision_time)
}
