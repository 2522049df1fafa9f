//! The providers of the groups, and the state of their machines as of one evaluation.
//!
//! A provider that fails or hangs pauses only its own groups: its state is read in a task of its own, and an evaluation goes on without
//! what takes longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use api::plimsoll::NodeGroup;
use connect::providers::{self, Group, NodeGroupProvider, ProviderError};
use futures::future::join_all;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

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
    /// The read in flight.
    reading: JoinSet<ProviderState>,
    /// Whether an evaluation did not wait for the read in flight.
    is_late: Arc<AtomicBool>,
    last: Option<ProviderState>,
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

impl Providers {
    /// Reads the state of all groups. Providers are asked at the same time; one that answers late has the cluster evaluated again.
    pub(super) async fn read(
        &mut self,
        groups: &[&NodeGroup],
        cx: &Context,
        trigger: &Arc<Trigger>,
    ) -> ProviderGroups {
        let mut all = ProviderGroups::new();
        let mut by_provider: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for group in groups {
            let name = group.metadata.name.clone().unwrap_or_default();
            match self.open(group, cx) {
                Ok(provider) => by_provider.entry(provider).or_default().push(name),
                Err(problem) => drop(all.insert(name, Err(problem))),
            }
        }
        let deadline = Instant::now() + PATIENCE;
        let asked = self.opened.iter_mut().filter(|(name, _)| by_provider.contains_key(*name));
        join_all(asked.map(|(_, opened)| opened.read(deadline, trigger))).await;
        for (provider, names) in by_provider {
            let Some(opened) = self.opened.get(&provider) else { continue };
            for name in names {
                let group = opened.group(&name);
                all.insert(name, group);
            }
        }
        all
    }

    /// Opens the provider of a group, if it is not open, and returns its name.
    fn open(&mut self, group: &NodeGroup, cx: &Context) -> Result<String, String> {
        let name = providers::provider_name(group).map_err(|error| error.to_string())?;
        if !self.opened.contains_key(name) {
            let provider = match cx.settings.node_providers.get(name) {
                Some(provider) => Arc::clone(provider),
                None => providers::open(&cx.connect(), name, &Value::Null)
                    .map_err(|error| error.to_string())?,
            };
            self.opened.insert(name.to_owned(), Opened::new(provider));
        }
        Ok(name.to_owned())
    }
}

impl Opened {
    fn new(provider: Arc<dyn NodeGroupProvider>) -> Self {
        Self {
            connection: Arc::new(Connection { provider, changes: AtomicU64::new(0) }),
            reading: JoinSet::new(),
            is_late: Arc::default(),
            last: None,
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
        if reading.is_some() {
            (self.last, self.is_new) = (reading, is_new);
        }
    }

    /// Whether no change was requested since the last state was read.
    fn is_current(&self) -> bool {
        let changes = self.connection.changes.load(Ordering::SeqCst);
        self.last.as_ref().is_some_and(|last| last.changes == changes)
    }

    /// Returns a group. While a read is in flight, the last state counts for a while, unless something was changed since.
    fn group(&self, name: &str) -> Result<ProviderGroup, String> {
        let is_read = self.reading.is_empty();
        let is_usable = |last: &&ProviderState| {
            is_read || (self.is_current() && last.began_at.elapsed() < MAX_AGE)
        };
        let Some(last) = self.last.as_ref().filter(is_usable) else {
            return Err("the provider does not answer".to_owned());
        };
        let groups = last.groups.as_ref().map_err(ToString::to_string)?;
        let group = groups.iter().find(|group| group.id == name);
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
