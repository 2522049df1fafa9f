//! The targets of policies: which policies name the same one, who else sizes it, and when it changes.

mod scale;
mod shared;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::plimsoll::scaling_policy::TargetSpec;
use cluster::{Caches, Key, Subscription, WorkQueue};
use connect::targets::{Target, TargetRef};
use tokio::time::Instant;

use crate::context::Context;
pub(crate) use scale::{Outcome, read, scale};
pub(crate) use shared::{Rivals, acting_policy};
pub(crate) use watch::TargetWatches;

/// How soon a policy is evaluated again after a conflict with another client; each further conflict in a row doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// Spreads the evaluations of policies over their intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    began_at: Instant,
}

impl Phases {
    /// Counts intervals from now on.
    pub(crate) fn new() -> Self {
        Self { began_at: Instant::now() }
    }

    /// Returns when a policy is evaluated next after `now`: at its own place in every interval, so that not all are evaluated at once.
    pub(crate) fn next_at(&self, key: &Key, interval: Duration, now: Instant) -> Instant {
        let interval = interval.as_nanos().max(1);
        let place =
            u128::from(BuildHasherDefault::<DefaultHasher>::default().hash_one(key)) % interval;
        let passed = now.saturating_duration_since(self.began_at).as_nanos();
        // The time since the place in this interval, or in the one before.
        let since = (passed % interval + interval - place) % interval;
        let wait = u64::try_from(interval - since).unwrap_or(u64::MAX);
        now + Duration::from_nanos(wait)
    }
}

/// Identifies a target: two policies with equal ids size the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TargetId(String);

impl TargetId {
    /// Returns the id of a policy's target.
    pub(crate) fn new(namespace: &str, spec: &TargetSpec) -> Self {
        match (&spec.kind, &spec.name) {
            (Some(kind), Some(name)) => {
                Self::object(group(spec.api_version.as_deref(), kind), kind, namespace, name)
            }
            // What is outside of the cluster has no namespace here.
            _ => Self(serde_json::to_string(spec).unwrap_or_default()),
        }
    }

    /// Returns the id of an object. Its versions are the same object.
    pub(crate) fn object(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self(format!("{group}/{kind}/{namespace}/{name}"))
    }
}

/// Returns the group of a kind; without an `apiVersion` it is the group of the built-in kind.
pub(crate) fn group<'a>(api_version: Option<&'a str>, kind: &str) -> &'a str {
    match api_version {
        Some(text) => text.split_once('/').map_or("", |(group, _)| group),
        None => api::find(None, kind).map_or("apps", |found| found.group),
    }
}

/// The policies of one kind by their target, and what is kept of each between two evaluations.
#[derive(Default)]
pub(crate) struct PolicyIndex {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_target: BTreeMap<TargetId, BTreeSet<Key>>,
    memories: BTreeMap<Key, Memory>,
}

/// What is kept of a policy between two evaluations.
#[derive(Default)]
pub(crate) struct Memory {
    /// The id of the target, where the index was given it with `set_target`.
    id: Option<TargetId>,
    /// The target, opened.
    pub(crate) target: Option<(TargetRef, Arc<dyn Target>)>,
    /// The size of the target after the newest evaluation.
    pub(crate) count: Option<i64>,
    /// The reason of the newest event for each condition, so that none is repeated.
    pub(crate) reported: BTreeMap<&'static str, String>,
    /// How many evaluations in a row ended with a conflict.
    pub(crate) conflicts: u32,
}

impl PolicyIndex {
    /// Returns the policies that name a target.
    pub(crate) fn policies_of(&self, target: &TargetId) -> Vec<Key> {
        self.lock().by_target.get(target).into_iter().flatten().cloned().collect()
    }

    /// Replaces the target of a policy, and returns the other policies of both.
    pub(crate) fn replace(
        &self,
        key: &Key,
        old: Option<&TargetId>,
        new: Option<&TargetId>,
    ) -> Vec<Key> {
        let mut state = self.lock();
        if old != new {
            if let Some(old) = old
                && let Some(keys) = state.by_target.get_mut(old)
            {
                keys.remove(key);
                if keys.is_empty() {
                    state.by_target.remove(old);
                }
            }
            if let Some(new) = new {
                state.by_target.entry(new.clone()).or_default().insert(key.clone());
            }
        }
        let both = [old, new].into_iter().flatten().collect::<BTreeSet<_>>();
        let others = both.into_iter().filter_map(|id| state.by_target.get(id)).flatten();
        others.filter(|other| *other != key).cloned().collect()
    }

    /// Replaces the target of a policy by another, or by none.
    pub(crate) fn set_target(&self, key: &Key, new: Option<TargetId>) {
        let old = self.with(key, |memory| std::mem::replace(&mut memory.id, new.clone()));
        self.replace(key, old.as_ref(), new.as_ref());
    }

    /// Reads or changes what is kept of a policy.
    pub(crate) fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Memory) -> T) -> T {
        let mut state = self.lock();
        // Most policies are known, and then their key is not copied.
        if let Some(memory) = state.memories.get_mut(key) {
            return work(memory);
        }
        work(state.memories.entry(key.clone()).or_default())
    }

    /// Returns when a policy is evaluated again after a conflict: soon, and later with each further conflict in a row.
    pub(crate) fn retry_at(
        &self,
        key: &Key,
        outcome: &Outcome,
        now: Instant,
        interval: Duration,
    ) -> Option<Instant> {
        let is_overtaken = matches!(outcome, Outcome::Conflict(_) | Outcome::SameSize(_));
        self.with(key, |memory| {
            let earlier = memory.conflicts;
            memory.conflicts = if is_overtaken { earlier.saturating_add(1) } else { 0 };
            let pause = FIRST_RETRY.saturating_mul(1 << earlier.min(16));
            is_overtaken.then(|| now + pause.min(interval))
        })
    }

    /// Removes what is kept of a policy.
    pub(crate) fn remove(&self, key: &Key) {
        self.lock().memories.remove(key);
    }

    /// Returns the opened target of a policy.
    pub(crate) fn open(
        &self,
        key: &Key,
        target: TargetRef,
        context: &connect::Context,
    ) -> Result<Arc<dyn Target>, String> {
        self.with(key, |memory| {
            if let Some((known, open)) = &memory.target
                && *known == target
            {
                return Ok(Arc::clone(open));
            }
            let open = connect::targets::open(context, &target).map_err(|e| e.to_string())?;
            memory.target = Some((target, Arc::clone(&open)));
            memory.count = None;
            Ok(open)
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches other autoscalers in the caches, and calls `changed` with each target that one of them starts or stops to size.
pub(crate) fn follow_rivals(
    rivals: &Arc<Rivals>,
    caches: &Caches,
    follows_hpas: bool,
    changed: impl Fn(&TargetId) + Clone + Send + Sync + 'static,
) -> Vec<Subscription> {
    shared::follow(rivals, caches, follows_hpas, changed)
}

/// Returns watches of the scaled kinds, which queue the policies of a changed target. A size that this process has set is ignored.
pub(crate) fn watches(
    cx: &Context,
    queue: &Arc<WorkQueue>,
    index: &Arc<PolicyIndex>,
) -> TargetWatches {
    let (queue, index) = (Arc::clone(queue), Arc::clone(index));
    let (client, namespace) = (cx.client.clone(), cx.caches.namespace().map(str::to_owned));
    let (random, supervisor) = (cx.settings.random.clone(), cx.settings.supervisor.clone());
    TargetWatches::new(client, namespace, random, supervisor, move |target| {
        for key in index.policies_of(&target.id) {
            let known = index.with(&key, |memory| memory.count);
            if target.count.is_none() || known != target.count {
                queue.add(key);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn policies_have_places_of_their_own_in_the_interval() {
        let (phases, interval) = (Phases::new(), Duration::from_secs(10));
        let start = Instant::now();
        let mut by_second = [0_u32; 10];
        for index in 0..1000 {
            let key = Key::new("ns", format!("p-{index}"));
            let first = phases.next_at(&key, interval, start);
            assert!(first > start && first <= start + interval);
            assert_eq!(phases.next_at(&key, interval, first), first + interval);
            let meanwhile = first + Duration::from_secs(3);
            assert_eq!(phases.next_at(&key, interval, meanwhile), first + interval);
            let second = (first - start).as_secs_f64().ceil() as usize - 1;
            by_second[second] += 1;
        }
        assert!(by_second.iter().all(|count| (60..=140).contains(count)), "{by_second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_always_conflicts_is_tried_less_and_less_often() {
        let (index, key) = (PolicyIndex::default(), Key::new("ns", "p"));
        let (now, interval) = (Instant::now(), Duration::from_secs(10));
        let conflict = Outcome::Conflict(String::new());
        let pauses: Vec<u128> = (0..9)
            .filter_map(|_| index.retry_at(&key, &conflict, now, interval))
            .map(|at| (at - now).as_millis())
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(index.retry_at(&key, &Outcome::Applied, now, interval), None);
        let same = Outcome::SameSize(String::new());
        let first = index.retry_at(&key, &same, now, interval);
        assert_eq!(
            first,
            Some(now + Duration::from_millis(100)),
            "after a success it begins again"
        );
    }

    #[test]
    fn a_policy_that_names_another_target_is_not_found_by_the_old_one() {
        let (index, key) = (PolicyIndex::default(), Key::new("ns", "service"));
        let id = |name: &str| TargetId::object("apps", "Deployment", "ns", name);
        index.set_target(&key, Some(id("a")));
        assert_eq!(index.policies_of(&id("a")), std::slice::from_ref(&key));
        index.set_target(&key, Some(id("b")));
        assert_eq!(
            (index.policies_of(&id("a")), index.policies_of(&id("b"))),
            (vec![], vec![key.clone()])
        );
        index.set_target(&key, None);
        assert_eq!(index.policies_of(&id("b")), []);
    }

    #[test]
    fn versions_of_an_object_are_one_target_and_namespaces_are_not() {
        let id = |namespace: &str, spec: serde_json::Value| {
            TargetId::new(namespace, &serde_json::from_value(spec).unwrap())
        };
        let web = id("a", json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}));
        let old =
            id("a", json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"}));
        let short = id("a", json!({"kind": "Deployment", "name": "web"}));
        assert_eq!((&web, &web), (&old, &short));
        assert_ne!(web, id("b", json!({"kind": "Deployment", "name": "web"})));
        let fleet = id("a", json!({"kind": "Fleet", "name": "web"}));
        assert_eq!(fleet, TargetId::object("agones.dev", "Fleet", "a", "web"));
        let docker = || json!({"docker": {"service": "web"}});
        assert_eq!(id("a", docker()), id("b", docker()));
    }
}
