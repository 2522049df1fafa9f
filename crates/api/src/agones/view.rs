//! Game servers, sets and fleets as the decisions about them read them.

use std::collections::BTreeMap;
use std::sync::Arc;

use decide::fleet::{self, Amount, Mode, ServerSet, SetCounts, SetView, Template, Update};
use decide::gameserver::{self, Counter, List, State, StringMap};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    AggregateCount, COMPAT_ANNOTATION, CounterStatus, ERRORED_AT_ANNOTATION, EVACUATE_ANNOTATION,
    EVACUATION_ANNOTATION, FAILED_BEFORE_ANNOTATION, Fleet, GameServer, GameServerSet,
    GameServerSpec, GameServerStatus, LEAVING_ANNOTATION, ListStatus, Scheduling, StrategyType,
    priority,
};
use crate::Problem;

type Named<T> = BTreeMap<Arc<str>, T>;

impl GameServer {
    /// Converts the object into the input of decisions.
    pub fn view(&self) -> gameserver::GameServer {
        match &self.status {
            Some(status) => server(&self.metadata, status),
            None => server(&self.metadata, &GameServerStatus::default()),
        }
    }

    /// Writes what an allocation changed back into the object.
    pub fn take_over(&mut self, server: &gameserver::GameServer) {
        self.metadata.labels = untexts(&server.labels);
        self.metadata.annotations = untexts(&server.annotations);
        let status = self.status.get_or_insert_default();
        status.state = server.state.to_string();
        if status.counters.is_some() {
            status.counters = Some(unnamed(&server.counters, |c| CounterStatus {
                count: c.count,
                capacity: c.capacity,
            }));
        }
        if status.lists.is_some() {
            status.lists = Some(unnamed(&server.lists, |l| ListStatus {
                capacity: l.capacity,
                values: l.values.iter().map(ToString::to_string).collect(),
            }));
        }
    }
}

/// Converts the object into the input of decisions, where only an object's metadata and status are at hand.
pub fn server(metadata: &ObjectMeta, status: &GameServerStatus) -> gameserver::GameServer {
    let annotations = texts(metadata.annotations.as_ref());
    let errored_at = annotations.get(ERRORED_AT_ANNOTATION).and_then(|at| at.parse().ok());
    let failed_before = annotations.get(FAILED_BEFORE_ANNOTATION).and_then(|n| n.parse().ok());
    let failed_before = failed_before.unwrap_or_default();
    let is_leaving = annotations.contains_key(LEAVING_ANNOTATION);
    let is_evacuating = annotations.contains_key(EVACUATE_ANNOTATION);
    gameserver::GameServer {
        namespace: metadata.namespace.as_deref().unwrap_or("default").into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
        state: State::parse(&status.state),
        node: status.node_name.as_str().into(),
        labels: texts(metadata.labels.as_ref()),
        annotations,
        counters: named(status.counters.as_ref(), counter),
        lists: named(status.lists.as_ref(), list),
        created_at: moment(metadata.creation_timestamp.as_ref(), Timestamp::UNIX_EPOCH),
        has_deletion_timestamp: metadata.deletion_timestamp.is_some(),
        errored_at,
        failed_before,
        is_leaving,
        is_evacuating,
    }
}

impl GameServerSpec {
    /// Returns what a new game server starts with.
    pub fn start(&self) -> Template {
        Template {
            counters: named(self.counters.as_ref(), counter),
            lists: named(self.lists.as_ref(), list),
        }
    }
}

impl Fleet {
    /// Converts the object into the input of decisions.
    pub fn view(&self) -> fleet::Fleet {
        let status = self.status.clone().unwrap_or_default();
        fleet::Fleet {
            namespace: self.metadata.namespace.as_deref().unwrap_or("default").into(),
            name: self.metadata.name.as_deref().unwrap_or_default().into(),
            replicas: self.spec.replicas,
            scheduling: self.spec.scheduling.view(),
            priorities: priority::for_deletion(&self.spec.priorities),
            template: self.spec.template.spec.start(),
            status: fleet::FleetStatus {
                replicas: status.replicas,
                ready: status.ready_replicas,
                reserved: status.reserved_replicas,
                allocated: status.allocated_replicas,
                counters: named(status.counters.as_ref(), AggregateCount::view),
                lists: named(status.lists.as_ref(), AggregateCount::view),
            },
            mode: self.mode(),
        }
    }

    /// Whose results the fleet gets.
    pub fn mode(&self) -> Mode {
        mode(&self.metadata)
    }

    /// Returns how the fleet replaces its game servers, or the fields that cannot be read.
    pub fn update(&self) -> Result<Update, Vec<Problem>> {
        if self.spec.strategy.type_ == Some(StrategyType::Recreate) {
            return Ok(Update::Recreate);
        }
        let rolling = self.spec.strategy.rolling_update.as_ref();
        let mut problems = Vec::new();
        let mut read = |bound: Option<&IntOrString>, field: &str| {
            let quarter = Amount::Percent(25);
            let bound = bound.map_or(Some(quarter), amount);
            if bound.is_none() {
                let path = format!("spec.strategy.rollingUpdate.{field}");
                problems.push(Problem::new(path, "expected a number, or a share such as `25%`"));
            }
            bound.unwrap_or(quarter)
        };
        let max_surge = read(rolling.and_then(|r| r.max_surge.as_ref()), "maxSurge");
        let max_unavailable =
            read(rolling.and_then(|r| r.max_unavailable.as_ref()), "maxUnavailable");
        let update = Update::RollingUpdate { max_surge, max_unavailable };
        if problems.is_empty() { Ok(update) } else { Err(problems) }
    }
}

impl GameServerSet {
    /// Returns the set as a reconciliation reads it.
    pub fn view(&self, mode: Mode) -> ServerSet {
        ServerSet {
            replicas: self.spec.replicas,
            // Upstream sorts a set without `scheduling` as Distributed, though its game servers are Packed.
            scheduling: self.spec.scheduling.unwrap_or(Scheduling::Distributed).view(),
            priorities: priority::for_deletion(&self.spec.priorities),
            has_deletion_timestamp: self.metadata.deletion_timestamp.is_some(),
            mode,
        }
    }

    /// Whose results a set without a fleet gets.
    pub fn mode(&self) -> Mode {
        mode(&self.metadata)
    }

    /// Returns the labels and annotations that mark Allocated game servers as too many.
    pub fn overflow(&self) -> Option<(StringMap, StringMap)> {
        let overflow = self.spec.allocation_overflow.as_ref()?;
        Some((texts(Some(&overflow.labels)), texts(Some(&overflow.annotations))))
    }

    /// Returns the set as a rollout reads it.
    pub fn in_rollout(&self) -> SetView {
        let status = self.status.clone().unwrap_or_default();
        SetView {
            name: self.metadata.name.as_deref().unwrap_or_default().into(),
            replicas: self.spec.replicas,
            status: SetCounts {
                replicas: status.replicas,
                ready: status.ready_replicas,
                reserved: status.reserved_replicas,
                allocated: status.allocated_replicas,
                shutdown: status.shutdown_replicas,
            },
        }
    }
}

impl Scheduling {
    /// Converts the object into the input of decisions.
    pub fn view(self) -> fleet::Scheduling {
        match self {
            Self::Packed => fleet::Scheduling::Packed,
            Self::Distributed => fleet::Scheduling::Distributed,
        }
    }
}

/// Reads a number, or a share: upstream takes every `%` out before it reads one, so that `"25"` is 25%.
pub(crate) fn amount(value: &IntOrString) -> Option<Amount> {
    match value {
        IntOrString::Int(n) => Some(Amount::Count(i64::from(*n))),
        IntOrString::String(text) => text.replace('%', "").parse().ok().map(Amount::Percent),
    }
}

/// Returns whether idle game servers of a fleet, or of a set without one, may move to other nodes: unless an annotation forbids it, or
/// asks for Agones' exact behaviour.
pub fn may_evacuate(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    let is_forbidden =
        annotations.and_then(|all| all.get(EVACUATION_ANNOTATION)).is_some_and(|v| v == "false");
    !is_forbidden && mode(metadata) == Mode::Repaired
}

fn mode(metadata: &ObjectMeta) -> Mode {
    let annotations = metadata.annotations.as_ref();
    match annotations.and_then(|a| a.get(COMPAT_ANNOTATION)).map(String::as_str) {
        Some("agones") => Mode::Agones,
        Some(_) | None => Mode::Repaired,
    }
}

/// Reads a moment of an object's metadata.
pub(crate) fn moment(time: Option<&Time>, otherwise: Timestamp) -> Timestamp {
    time.map_or(otherwise, |t| t.0)
}

/// Shares the texts of a map.
pub(crate) fn texts(map: Option<&BTreeMap<String, String>>) -> StringMap {
    named(map, |value| Arc::from(value.as_str()))
}

fn untexts(map: &StringMap) -> Option<BTreeMap<String, String>> {
    (!map.is_empty()).then(|| unnamed(map, ToString::to_string))
}

pub(crate) fn named<T, U>(map: Option<&BTreeMap<String, T>>, with: impl Fn(&T) -> U) -> Named<U> {
    map.into_iter().flatten().map(|(name, value)| (name.as_str().into(), with(value))).collect()
}

fn unnamed<T, U>(map: &Named<T>, with: impl Fn(&T) -> U) -> BTreeMap<String, U> {
    map.iter().map(|(name, value)| (name.to_string(), with(value))).collect()
}

fn counter(counter: &CounterStatus) -> Counter {
    Counter { count: counter.count, capacity: counter.capacity }
}

fn list(list: &ListStatus) -> List {
    let values = list.values.iter().map(|v| v.as_str().into()).collect();
    List { capacity: list.capacity, values }
}
