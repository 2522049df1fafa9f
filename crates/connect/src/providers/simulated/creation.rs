//! Requested instances without a Node: still starting, or failed to start.

use std::collections::BTreeMap;
use std::time::Duration;

use api::plimsoll::{NodeGroup, Span};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde::Deserialize;
use serde_json::Value;

use super::super::ProviderError;
use super::flavor::Flavor;
use super::{Machines, limit_usize, node, target};
use crate::providers::cluster_error::{refused, write_error};
use crate::registry::read_settings;

/// The pause after a failure to create nodes: the first one, and the longest; each is twice the one before, with jitter.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// The block of a NodeGroup's `provider`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Settings {
    /// How long a machine takes to start.
    start_after: Span,
    /// The share of machines that fail to start.
    failure_rate: f64,
    /// Whether every increase fails for want of machines.
    pub(super) out_of_stock: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start_after: Span(SignedDuration::from_secs(30)),
            failure_rate: 0.0,
            out_of_stock: false,
        }
    }
}

/// Reads the provider's block of a group.
pub(super) fn settings(group: &NodeGroup, flavor: &Flavor) -> Result<Settings, ProviderError> {
    let block = group.spec.provider.get(flavor.name).unwrap_or(&Value::Null);
    let problem = |problem| format!("spec.provider.{}: {problem}", flavor.name);
    read_settings(block).map_err(|err| refused(&group.name_any(), problem(err)))
}

/// The instances without a Node, by group.
#[derive(Default)]
pub(super) struct Creations {
    by_group: BTreeMap<String, Creation>,
}

#[derive(Default)]
struct Creation {
    /// When each starting instance gets its Node, earliest first.
    due_at: Vec<Timestamp>,
    /// The ids of instances that failed to start.
    failed: Vec<String>,
}

impl Creations {
    pub(super) fn count_starting(&self, group: &str) -> usize {
        self.by_group.get(group).map_or(0, |creation| creation.due_at.len())
    }

    pub(super) fn failed(&self, group: &str) -> impl Iterator<Item = &str> {
        self.by_group.get(group).into_iter().flat_map(|it| it.failed.iter().map(String::as_str))
    }

    pub(super) fn count_failed(&self, group: &str, ids: &[String]) -> usize {
        self.failed(group).filter(|id| ids.iter().any(|given| given == id)).count()
    }

    /// Removes failed instances by their ids, and returns how many there were.
    pub(super) fn remove_failed(&mut self, group: &str, ids: &[String]) -> usize {
        let count = self.count_failed(group, ids);
        if let Some(creation) = self.by_group.get_mut(group) {
            creation.failed.retain(|id| !ids.contains(id));
        }
        count
    }

    /// Removes failed instances beyond a target.
    pub(super) fn cancel_failed(&mut self, group: &str, present: u32, target: u32) {
        if let Some(creation) = self.by_group.get_mut(group) {
            creation.failed.truncate(target.saturating_sub(present) as usize);
        }
    }

    fn next_due_at(&self) -> Option<Timestamp> {
        self.by_group.values().filter_map(|creation| creation.due_at.first().copied()).min()
    }
}

impl Creation {
    /// Starts and cancels instances until there are as many as `missing`; returns how many are due.
    fn adjust(&mut self, missing: usize, start_after: SignedDuration, now: Timestamp) -> usize {
        let due_at = now.saturating_add(start_after).unwrap_or(Timestamp::MAX);
        self.due_at.resize(missing, due_at);
        self.due_at.sort_unstable();
        self.due_at.iter().filter(|at| **at <= now).count()
    }
}

impl Machines {
    /// Creates nodes whenever some are due. Never returns.
    pub(super) async fn create_when_due(&self) {
        let mut pause = PAUSE.0;
        loop {
            let next = self.creations.lock().await.next_due_at();
            let until_due = async {
                match next {
                    Some(at) => self.context.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until_due => {}
                () = self.changed.notified() => continue,
            }
            let Err(error) = self.create_all_due().await else {
                pause = PAUSE.0;
                continue;
            };
            let retry_after = pause.mul_f64(0.5 + self.context.random.fraction());
            tracing::warn!(%error, ?retry_after, "could not create simulated nodes; retrying");
            tokio::time::sleep(retry_after).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    async fn create_all_due(&self) -> Result<(), ProviderError> {
        let mut creations = self.creations.lock().await;
        let groups = self.groups().await?;
        // Instances of a deleted group are no longer created.
        creations.by_group.retain(|name, _| groups.iter().any(|group| group.name_any() == *name));
        let mut outcome = Ok(());
        for group in &groups {
            let created = match self.nodes(&group.name_any()).await {
                Ok(nodes) => self.create_due(&mut creations, group, nodes).await.map(drop),
                Err(error) => Err(error),
            };
            outcome = created.and(outcome);
        }
        outcome
    }

    /// Starts instances until the group has its target, creates the nodes of those that are due, and returns all nodes. `nodes` are those
    /// that exist, listed since the creations were locked.
    pub(super) async fn create_due(
        &self,
        creations: &mut Creations,
        group: &NodeGroup,
        mut nodes: Vec<Node>,
    ) -> Result<Vec<Node>, ProviderError> {
        let name = group.name_any();
        let settings = settings(group, self.flavor)?;
        let creation = creations.by_group.entry(name.clone()).or_default();
        let existing = limit_usize(nodes.len() + creation.failed.len());
        let missing = target(group, nodes.len()).saturating_sub(existing) as usize;
        let now = self.context.clock.now();
        for _ in 0..creation.adjust(missing, settings.start_after.0, now) {
            let machine = format!("{name}-{:08x}", self.context.random.u64() >> 32);
            if self.context.random.fraction() < settings.failure_rate {
                creation.failed.push(self.flavor.instance_id(&machine));
            } else {
                nodes.push(self.create(group, &machine, now).await?);
            }
            creation.due_at.remove(0);
        }
        Ok(nodes)
    }

    async fn create(
        &self,
        group: &NodeGroup,
        machine: &str,
        now: Timestamp,
    ) -> Result<Node, ProviderError> {
        let name = group.name_any();
        let address = self.context.random.u64();
        let node = node::object(group, self.flavor, machine, address, now)
            .map_err(|err| refused(&name, format!("spec.template: {err}")))?;
        let api: Api<Node> = Api::all(self.context.client.clone());
        let created = api.create(&PostParams::default(), &node).await;
        created.map_err(|error| write_error(&name, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_start_as_they_are_missing_and_the_newest_are_cancelled_first() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let half_a_minute = SignedDuration::from_secs(30);
        let mut creation = Creation::default();
        assert_eq!(creation.adjust(1, half_a_minute, at(0)), 0);
        assert_eq!(creation.adjust(3, half_a_minute, at(10)), 0);
        assert_eq!(creation.due_at, [at(30), at(40), at(40)]);
        assert_eq!(creation.adjust(2, half_a_minute, at(30)), 1);
        assert_eq!(creation.due_at, [at(30), at(40)]);
        assert_eq!(creation.adjust(2, half_a_minute, at(40)), 2);
        assert_eq!(creation.adjust(0, half_a_minute, at(40)), 0);
    }
}
