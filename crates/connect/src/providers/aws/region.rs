//! The groups of one region. They are read once a minute, more often while machines come or go, and at once after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::plimsoll::node_autoscaler::{AwsDiscovery, AwsEndpoints};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use process::Clock;
use tokio::sync::MutexGuard;

use super::machines::Machines;
use super::{instances, lock, template};
use crate::aws::autoscaling::{Activity, AutoScaling, AutoScalingGroup};
use crate::aws::ec2::Ec2;
use crate::aws::eks::Eks;
use crate::aws::{AwsAccount, AwsService, Failure};
use crate::providers::Group;

/// For how long groups are used without reading them again.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(60);
/// The same while instances are missing, starting or being terminated.
const KEEP_CHANGING_FOR: SignedDuration = SignedDuration::from_secs(10);
/// How many groups are described at the same time.
const AT_ONCE: usize = 8;

/// A region, and what is known about its groups.
pub(super) struct Region {
    name: String,
    clock: Clock,
    opened_at: Timestamp,
    pub(super) scaling: AutoScaling,
    machines: Machines,
    /// Held by a change, from the reading of its group to the last call.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    groups: Option<Reading>,
    /// How many changes there were, counted at their beginning and at their end.
    changes: u64,
    /// When this process last set the desired capacity of a group.
    set_at: BTreeMap<String, Timestamp>,
}

/// The groups as of some time.
struct Reading {
    at: Timestamp,
    changes: u64,
    names: Vec<String>,
    groups: Vec<Group>,
    is_settled: bool,
}

/// A change under way: others wait for it.
pub(super) struct Turn<'a> {
    region: &'a Region,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.region.known).changes += 1;
    }
}

impl Region {
    /// Names the services. Nothing is sent.
    pub(super) fn open(
        name: &str,
        account: &Arc<AwsAccount>,
        endpoints: &AwsEndpoints,
        clock: &Clock,
    ) -> Result<Self, String> {
        let service = |service: &'static str, endpoint: &str| {
            AwsService::in_account(account, service, name.to_owned(), Some(endpoint))
        };
        let ec2 = Ec2::new(service("ec2", &endpoints.ec2)?);
        let eks = Eks::new(service("eks", &endpoints.eks)?);
        Ok(Self {
            name: name.to_owned(),
            clock: clock.clone(),
            opened_at: clock.now(),
            scaling: AutoScaling::new(service("autoscaling", &endpoints.autoscaling)?),
            machines: Machines::new(ec2, eks),
            turn: tokio::sync::Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// Waits for the changes under way, and begins another.
    pub(super) async fn begin_change(&self) -> Turn<'_> {
        let turn = Turn { _lock: self.turn.lock().await, region: self };
        lock(&self.known).changes += 1;
        turn
    }

    /// Sets the desired capacity of a group, and records when.
    pub(super) async fn set_desired(&self, group: &str, to: u32) -> Result<(), Failure> {
        lock(&self.known).set_at.insert(group.to_owned(), self.clock.now());
        self.scaling.set_desired_capacity(group, to).await
    }

    /// Returns the groups with the given names, and those with all tags of one entry of `discover`.
    pub(super) async fn groups(
        &self,
        names: Vec<String>,
        discover: &[AwsDiscovery],
    ) -> Result<Vec<Group>, Failure> {
        let (at, changes) = (self.clock.now(), lock(&self.known).changes);
        if let Some(kept) = self.kept(&names, at) {
            return Ok(kept);
        }
        let mut found = self.scaling.groups_named(&names).await?;
        for entry in discover.iter().filter(|entry| !entry.tags.is_empty()) {
            found.extend(self.scaling.groups_tagged(&entry.tags).await?);
        }
        let mut seen = BTreeSet::new();
        found.retain(|group| !group.is_being_deleted() && seen.insert(group.name.clone()));
        lock(&self.known).set_at.retain(|name, _| seen.contains(name));
        let is_settled = found.iter().all(instances::is_settled);
        let descriptions: Vec<_> = found.iter().map(|group| self.describe(group)).collect();
        let described = stream::iter(descriptions).buffered(AT_ONCE);
        let groups: Vec<Group> = described.try_collect().await?;
        let reading = Reading { at, changes, names, groups: groups.clone(), is_settled };
        lock(&self.known).groups = Some(reading);
        Ok(groups)
    }

    /// Returns the groups that were read, if they are new enough and nothing was changed since.
    fn kept(&self, names: &[String], now: Timestamp) -> Option<Vec<Group>> {
        let known = lock(&self.known);
        let last = known.groups.as_ref()?;
        let limit = if last.is_settled { KEEP_FOR } else { KEEP_CHANGING_FOR };
        let is_new = last.changes == known.changes && now.duration_since(last.at) < limit;
        (is_new && last.names == names).then(|| last.groups.clone())
    }

    async fn describe(&self, group: &AutoScalingGroup) -> Result<Group, Failure> {
        let now = self.clock.now();
        let failure = match instances::count_missing(group) {
            0 => None,
            _ => self.failure(group).await?,
        };
        let machine = self.machines.of(group, &self.scaling, now).await;
        let managed = self.machines.managed(group, now).await;
        let read = template::read(group, &self.name, machine.as_ref(), managed.as_ref());
        Ok(Group {
            id: group.name.clone(),
            min: group.min_size,
            max: group.max_size,
            target: group.desired_capacity,
            instances: instances::of(group, failure.as_ref()),
            template: read.template,
            options: read.options,
            ..Group::default()
        })
    }

    /// Returns why AWS could not launch instances that this process asked for.
    async fn failure(&self, group: &AutoScalingGroup) -> Result<Option<Activity>, Failure> {
        let set_at = lock(&self.known).set_at.get(&group.name).copied();
        let activities = self.scaling.activities(&group.name).await?;
        Ok(instances::failure(activities, set_at.unwrap_or(self.opened_at)))
    }
}
