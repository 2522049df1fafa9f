//! The providers of the groups, and the state of their machines as of one evaluation.
//!
//! A provider that fails or hangs pauses only its own groups: its state is read in a task of its own, and an evaluation goes on without
//! what takes longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use connect::providers::{self, Group, NamedGroup, NodeGroupProvider, ProviderError};
use futures::future::join_all;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::membership::Membership;
use super::wanted::{Unnamed, Wanted, WantedProvider};
use super::watch::Trigger;
use crate::context::Context;

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long an evaluation waits for providers.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// For how long the last known state of a provider is used while a newer one is being read.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The providers that were opened, by name.
#[derive(Default)]
pub(super) struct Providers {
    opened: BTreeMap<String, Opened>,
}

/// A provider, and the state of its groups.
struct Opened {
    connection: Arc<Connection>,
    settings: Value,
    /// The groups that it knows to be named.
    named: Vec<NamedGroup>,
    /// The read in flight.
    reading: JoinSet<ProviderState>,
    /// Whether an evaluation did not wait for the read in flight.
    is_late: Arc<AtomicBool>,
    last: Option<ProviderState>,
    /// The groups when they could last be read.
    last_known: Vec<Group>,
    /// Whether the last read ended after its evaluation, so that none has used it.
    is_new: bool,
}

/// A provider, and the number of changes that it was asked for, counted at their beginning and at their end.
struct Connection {
    provider: Arc<dyn NodeGroupProvider>,
    changes: AtomicU64,
}

/// The state of a provider's groups.
struct ProviderState {
    groups: Result<Vec<Group>, ProviderError>,
    began_at: Instant,
    /// The number of changes when it began.
    changes: u64,
}

/// A group with its machines.
#[derive(Clone)]
pub(super) struct ProviderGroup {
    connection: Arc<Connection>,
    /// The state of its machines.
    pub(super) state: Group,
}

/// The groups of all providers by the name of their NodeGroup, or why they cannot be scaled now.
pub(super) type ProviderGroups = BTreeMap<String, Result<ProviderGroup, String>>;

/// What the providers report.
#[derive(Default)]
pub(super) struct ProviderStates {
    /// The groups that are named.
    pub(super) groups: ProviderGroups,
    /// The groups that are not named and are used all the same, with the name of their provider.
    pub(super) unnamed: Vec<(String, Group)>,
    /// The bounds of all groups by their ids, of each provider that discovers groups and has answered.
    pub(super) listed: BTreeMap<String, BTreeMap<String, (u32, u32)>>,
    /// The group of each node, by what was last known.
    pub(super) membership: Membership,
}

impl Providers {
    /// Reads the state of all groups. Providers are asked at the same time; one that answers late has the cluster evaluated again.
    pub(super) async fn read(
        &mut self,
        wanted: &Wanted,
        cx: &Context,
        trigger: &Arc<Trigger>,
    ) -> ProviderStates {
        let mut states = ProviderStates::default();
        for (name, problem) in &wanted.problems {
            states.groups.insert(name.clone(), Err(problem.clone()));
            states.membership.add_labelled(name);
        }
        for (name, wanted) in &wanted.providers {
            if let Err(problem) = self.open(name, wanted, cx) {
                let failed =
                    wanted.names.values().map(|group| (group.clone(), Err(problem.clone())));
                states.groups.extend(failed);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        let asked = self.opened.iter_mut().filter(|(name, _)| wanted.providers.contains_key(*name));
        join_all(asked.map(|(_, opened)| opened.read(deadline, trigger))).await;
        for (name, opened) in &self.opened {
            if let Some(wanted) = wanted.providers.get(name) {
                opened.report(name, wanted, &mut states);
            }
        }
        states
    }

    /// Opens a provider, if it is not open with these settings, and says which groups are named.
    fn open(&mut self, name: &str, wanted: &WantedProvider, cx: &Context) -> Result<(), String> {
        if self.opened.get(name).is_none_or(|opened| opened.settings != wanted.settings) {
            let provider = match cx.settings.node_providers.get(name) {
                Some(provider) => Arc::clone(provider),
                None => match providers::open(&cx.connect(), name, &wanted.settings) {
                    Ok(provider) => provider,
                    Err(error) => {
                        self.opened.remove(name);
                        return Err(error.to_string());
                    }
                },
            };
            let opened = Opened::new(provider, wanted.settings.clone());
            self.opened.insert(name.to_owned(), opened);
        }
        let opened = self.opened.get_mut(name).filter(|opened| opened.named != wanted.named);
        if let Some(opened) = opened {
            opened.connection.provider.set_named_groups(&wanted.named);
            opened.named.clone_from(&wanted.named);
        }
        Ok(())
    }
}

impl Opened {
    fn new(provider: Arc<dyn NodeGroupProvider>, settings: Value) -> Self {
        Self {
            connection: Arc::new(Connection { provider, changes: AtomicU64::new(0) }),
            settings,
            named: Vec::new(),
            reading: JoinSet::new(),
            is_late: Arc::default(),
            last: None,
            last_known: Vec::new(),
            is_new: false,
        }
    }

    /// Reads the groups, but waits no longer than the deadline. A read that an earlier evaluation did not wait for goes on, and a state
    /// that came after its evaluation is used instead of another read.
    async fn read(&mut self, deadline: Instant, trigger: &Arc<Trigger>) {
        while let Some(ended) = self.reading.try_join_next() {
            self.keep(ended.ok(), true);
        }
        if !self.reading.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_new) && self.is_current() {
            return;
        }
        self.start(trigger);
        let ended = tokio::time::timeout_at(deadline, self.reading.join_next()).await;
        if let Ok(Some(ended)) = ended {
            self.keep(ended.ok(), false);
            return;
        }
        self.is_late.store(true, Ordering::Relaxed);
        // It may have ended before it could know.
        if let Some(ended) = self.reading.try_join_next() {
            self.keep(ended.ok(), false);
        }
    }

    fn start(&mut self, trigger: &Arc<Trigger>) {
        let (connection, trigger) = (Arc::clone(&self.connection), Arc::clone(trigger));
        self.is_late = Arc::default();
        let is_late = Arc::clone(&self.is_late);
        self.reading.spawn(async move {
            let (began_at, changes) = (Instant::now(), connection.changes.load(Ordering::SeqCst));
            let groups = process::catch_panic(connection.snapshot()).await;
            let groups = groups.unwrap_or_else(|cause| Err(unavailable(cause)));
            if is_late.load(Ordering::Relaxed) {
                trigger.fire();
            }
            ProviderState { groups, began_at, changes }
        });
    }

    fn keep(&mut self, reading: Option<ProviderState>, is_new: bool) {
        let Some(reading) = reading else { return };
        if let Ok(groups) = &reading.groups {
            self.last_known.clone_from(groups);
        }
        (self.last, self.is_new) = (Some(reading), is_new);
    }

    /// Reports the groups: those that are named, others that are used, and which nodes are in them. What cannot be read now stays as it
    /// was last known, so that nodes keep their groups.
    fn report(&self, provider: &str, wanted: &WantedProvider, states: &mut ProviderStates) {
        for (id, name) in &wanted.names {
            states.groups.insert(name.clone(), self.group(id));
            if wanted.labels_nodes {
                states.membership.add_labelled(name);
            }
        }
        for group in &self.last_known {
            let name = match (wanted.names.get(&group.id), wanted.unnamed) {
                (Some(name), _) => name,
                (None, Unnamed::Scaled) => &group.id,
                (None, Unnamed::Discovered | Unnamed::Ignored) => continue,
            };
            if !wanted.labels_nodes {
                let ids = group.instances.iter().map(|instance| &instance.id);
                states.membership.add_instances(name, ids);
            }
        }
        let unnamed = self.last_known.iter().filter(|group| !wanted.names.contains_key(&group.id));
        for group in unnamed.filter(|_| wanted.unnamed != Unnamed::Ignored) {
            if wanted.unnamed == Unnamed::Scaled {
                states.groups.insert(group.id.clone(), self.group(&group.id));
            }
            states.unnamed.push((provider.to_owned(), group.clone()));
        }
        let has_answered = self.last.as_ref().is_some_and(|last| last.groups.is_ok());
        if wanted.unnamed == Unnamed::Discovered && self.reading.is_empty() && has_answered {
            let bounds = |group: &Group| (group.id.clone(), (group.min, group.max));
            let listed = self.last_known.iter().map(bounds).collect();
            states.listed.insert(provider.to_owned(), listed);
        }
    }

    /// Whether no change was requested since the last state was read.
    fn is_current(&self) -> bool {
        let changes = self.connection.changes.load(Ordering::SeqCst);
        self.last.as_ref().is_some_and(|last| last.changes == changes)
    }

    /// Returns a group. While a read is in flight, the last state counts for a while, unless something was changed since.
    fn group(&self, id: &str) -> Result<ProviderGroup, String> {
        let is_read = self.reading.is_empty();
        let is_usable = |last: &&ProviderState| {
            is_read || (self.is_current() && last.began_at.elapsed() < MAX_AGE)
        };
        let Some(last) = self.last.as_ref().filter(is_usable) else {
            return Err("the provider does not answer".to_owned());
        };
        let groups = last.groups.as_ref().map_err(ToString::to_string)?;
        let group = groups.iter().find(|group| group.id == id);
        let group = group.ok_or_else(|| "the provider does not have the group".to_owned())?;
        Ok(ProviderGroup { connection: Arc::clone(&self.connection), state: group.clone() })
    }
}

impl Connection {
    async fn snapshot(&self) -> Result<Vec<Group>, ProviderError> {
        limited(self.provider.snapshot(), unavailable).await
    }
}

impl ProviderGroup {
    /// Raises the target. After an error that leaves the outcome open, the target is read again.
    pub(super) async fn increase(&self, by: u32) -> Result<(), String> {
        let (id, to) = (&self.state.id, self.state.target.saturating_add(by));
        self.change(self.connection.provider.increase(id, by), |group| group.target >= to).await
    }

    /// Lowers the target to cancel instances that have not appeared. After an error that leaves the outcome open, the target is read again.
    pub(super) async fn decrease_target(&self, by: u32) -> Result<(), String> {
        let (id, to) = (&self.state.id, self.state.target.saturating_sub(by));
        let call = self.connection.provider.decrease_target(id, by);
        self.change(call, |group| group.target <= to).await
    }

    /// Deletes instances. After an error that leaves the outcome open, the instances are read again.
    pub(super) async fn delete_nodes(&self, instances: &[String]) -> Result<(), String> {
        let call = self.connection.provider.delete_nodes(&self.state.id, instances);
        let is_left = |group: &Group| {
            let deleting = providers::InstanceState::Deleting;
            let mut left = group.instances.iter().filter(|instance| instance.state != deleting);
            left.any(|instance| instances.contains(&instance.id))
        };
        self.change(call, |group| !is_left(group)).await
    }

    /// Makes a call, and reads the group again where the outcome is open: `is_done` finds out whether the call succeeded.
    async fn change(
        &self,
        call: impl Future<Output = Result<(), ProviderError>>,
        is_done: impl Fn(&Group) -> bool,
    ) -> Result<(), String> {
        let (id, changes) = (&self.state.id, &self.connection.changes);
        changes.fetch_add(1, Ordering::SeqCst);
        let late = |message| ProviderError::Unknown { group: id.clone(), message };
        let outcome = limited(call, late).await;
        changes.fetch_add(1, Ordering::SeqCst);
        let Err(error) = outcome else { return Ok(()) };
        if matches!(error, ProviderError::Unknown { .. })
            && let Ok(groups) = self.connection.snapshot().await
            && groups.iter().find(|group| group.id == *id).is_some_and(is_done)
        {
            return Ok(());
        }
        Err(error.to_string())
    }
}

/// Limits the time of a call.
async fn limited<T>(
    call: impl Future<Output = Result<T, ProviderError>>,
    late: impl FnOnce(String) -> ProviderError,
) -> Result<T, ProviderError> {
    let outcome = tokio::time::timeout(TIMEOUT, call).await;
    outcome.unwrap_or_else(|_| Err(late(format!("no answer within {} s", TIMEOUT.as_secs()))))
}

fn unavailable(message: String) -> ProviderError {
    ProviderError::Unavailable { message }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use connect::providers::{Instance, InstanceState};
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::*;

    /// A provider whose calls have an open outcome.
    struct UncertainProvider {
        group: Mutex<Group>,
        /// Whether calls are carried out all the same.
        obeys: bool,
    }

    impl UncertainProvider {
        fn change(&self, change: impl FnOnce(&mut Group)) -> Result<(), ProviderError> {
            if self.obeys {
                change(&mut self.group.lock().unwrap());
            }
            Err(ProviderError::Unknown { group: "g".to_owned(), message: "late".to_owned() })
        }
    }

    impl NodeGroupProvider for UncertainProvider {
        fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
            async { Ok(vec![self.group.lock().unwrap().clone()]) }.boxed()
        }

        fn increase<'a>(&'a self, _: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
            async move { self.change(|group| group.target += by) }.boxed()
        }

        fn delete_nodes<'a>(
            &'a self,
            _: &'a str,
            instances: &'a [String],
        ) -> BoxFuture<'a, Result<(), ProviderError>> {
            let is_left = |instance: &Instance| !instances.contains(&instance.id);
            async move { self.change(|group| group.instances.retain(is_left)) }.boxed()
        }

        fn decrease_target<'a>(
            &'a self,
            _: &'a str,
            by: u32,
        ) -> BoxFuture<'a, Result<(), ProviderError>> {
            async move { self.change(|group| group.target -= by) }.boxed()
        }
    }

    #[tokio::test]
    async fn after_an_open_outcome_the_group_is_read_again() {
        for obeys in [true, false] {
            let instance =
                Instance { id: "i".to_owned(), state: InstanceState::Running, error: None };
            let state = Group {
                id: "g".to_owned(),
                min: 0,
                max: 5,
                target: 3,
                instances: vec![instance],
                ..Group::default()
            };
            let group = || {
                let provider =
                    Arc::new(UncertainProvider { group: Mutex::new(state.clone()), obeys });
                let connection = Connection { provider, changes: AtomicU64::new(0) };
                ProviderGroup { connection: Arc::new(connection), state: state.clone() }
            };
            assert_eq!(group().increase(1).await.is_ok(), obeys);
            assert_eq!(group().decrease_target(1).await.is_ok(), obeys);
            assert_eq!(group().delete_nodes(&["i".to_owned()]).await.is_ok(), obeys);
        }
    }
}
