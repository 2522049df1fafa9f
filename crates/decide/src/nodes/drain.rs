//! Decides what happens to a pod when its node is drained: it is evicted, ignored, or blocks the removal.
//!
//! The rules are Cluster Autoscaler's, in its order: the first one that applies decides. Only pods of game servers have rules of their
//! own, where fleets and nodes are scaled together.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::{GameServerUse, Owner, Pod, SafeToEvict, ScaleDownSettings, Workload};
use crate::Reason;

/// What happens to a pod when its node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainOutcome {
    /// It is gone already, or can be lost with its node.
    Ignored,
    /// It belongs to a DaemonSet, which runs one on each node.
    Daemon,
    /// It is evicted, whatever its budgets allow.
    Moved,
    /// It is evicted if its budgets allow it.
    MovedWithinBudget,
    /// It is an idle game server: its set replaces it, and deletes it then.
    Replaced,
    /// The node waits until it has completed.
    AwaitedToEnd,
    /// It blocks the removal.
    Blocks(Blocking),
}

/// The reason why a pod blocks the removal of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocking {
    ControllerNotFound,
    MinReplicasReached,
    NotReplicated,
    UnmovableKubeSystemPod,
    NotSafeToEvictAnnotation,
    LocalStorageRequested,
    NotEnoughPdb,
    GameServerAllocated,
    GameServerReserved,
    /// An idle game server that arrived after the node was emptied.
    GameServerIdle,
}

impl Reason for Blocking {
    fn code(&self) -> &'static str {
        match self {
            Self::ControllerNotFound => "ControllerNotFound",
            Self::MinReplicasReached => "MinReplicasReached",
            Self::NotReplicated => "NotReplicated",
            Self::UnmovableKubeSystemPod => "UnmovableKubeSystemPod",
            Self::NotSafeToEvictAnnotation => "NotSafeToEvictAnnotation",
            Self::LocalStorageRequested => "LocalStorageRequested",
            Self::NotEnoughPdb => "NotEnoughPdb",
            Self::GameServerAllocated => "GameServerAllocated",
            Self::GameServerReserved => "GameServerReserved",
            Self::GameServerIdle => "GameServerIdle",
        }
    }
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControllerNotFound => "its controller no longer exists",
            Self::MinReplicasReached => "its controller has too few replicas",
            Self::NotReplicated => "it has no controller that would recreate it",
            Self::UnmovableKubeSystemPod => {
                "it is a new kube-system pod without a disruption budget"
            }
            Self::NotSafeToEvictAnnotation => "its safe-to-evict annotation is false",
            Self::LocalStorageRequested => "it uses local storage",
            Self::NotEnoughPdb => "its disruption budget is exhausted",
            Self::GameServerAllocated => "its game server is Allocated",
            Self::GameServerReserved => "its game server is Reserved",
            Self::GameServerIdle => "its game server has not been replaced yet",
        })
    }
}

/// The input of the rules besides the pod.
#[derive(Clone)]
pub(super) struct Rules<'a> {
    settings: &'a ScaleDownSettings,
    now: Timestamp,
    /// Replicas by kind, namespace and name.
    workloads: BTreeMap<(&'a str, &'a str, &'a str), i32>,
}

/// The default termination grace period.
const DEFAULT_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// How much longer than its grace period a pod may take before it counts as gone.
const EXTRA_GRACE: SignedDuration = SignedDuration::from_secs(30);

impl<'a> Rules<'a> {
    /// Collects the input of the rules.
    pub(super) fn new(
        settings: &'a ScaleDownSettings,
        workloads: &'a [Workload],
        now: Timestamp,
    ) -> Self {
        let key = |w: &'a Workload| ((&*w.kind, &*w.namespace, &*w.name), w.replicas);
        Self { settings, now, workloads: workloads.iter().map(key).collect() }
    }

    /// Decides what happens to a pod. `has_budget`: whether a disruption budget covers it.
    pub(super) fn drain_outcome(&self, pod: &Pod, has_budget: bool) -> DrainOutcome {
        if pod.drain.is_mirror || pod.drain.is_finished || self.is_long_gone(pod) {
            return DrainOutcome::Ignored;
        }
        match pod.game_server {
            Some(GameServerUse::Idle) => return DrainOutcome::Replaced,
            Some(GameServerUse::Allocated) => {
                return DrainOutcome::Blocks(Blocking::GameServerAllocated);
            }
            Some(GameServerUse::Reserved) => {
                return DrainOutcome::Blocks(Blocking::GameServerReserved);
            }
            Some(GameServerUse::Ending) => return DrainOutcome::AwaitedToEnd,
            None => {}
        }
        if let Some(blocking) = self.controller_problem(pod) {
            return DrainOutcome::Blocks(blocking);
        }
        if pod.is_daemon() {
            return DrainOutcome::Daemon;
        }
        match pod.drain.safe_to_evict {
            SafeToEvict::Yes => return DrainOutcome::Moved,
            SafeToEvict::OnCompletion => return DrainOutcome::AwaitedToEnd,
            SafeToEvict::Unset | SafeToEvict::No => {}
        }
        if !self.is_replicated(pod) {
            return DrainOutcome::Blocks(Blocking::NotReplicated);
        }
        if self.settings.skip_system_pods && &*pod.spec.namespace == "kube-system" && !has_budget {
            return match self.is_young(pod) {
                true => DrainOutcome::Blocks(Blocking::UnmovableKubeSystemPod),
                false => DrainOutcome::Moved,
            };
        }
        if pod.drain.safe_to_evict == SafeToEvict::No {
            return DrainOutcome::Blocks(Blocking::NotSafeToEvictAnnotation);
        }
        if self.settings.skip_local_storage && pod.drain.has_local_storage {
            return DrainOutcome::Blocks(Blocking::LocalStorageRequested);
        }
        DrainOutcome::MovedWithinBudget
    }

    /// Returns whether a pod should have terminated some time ago. Its deletion timestamp already includes its grace period, which
    /// is added once more.
    pub(super) fn is_long_gone(&self, pod: &Pod) -> bool {
        let Some(at) = pod.drain.deletes_at else { return false };
        let grace = pod.drain.grace.unwrap_or(DEFAULT_GRACE);
        after(at, grace.saturating_add(EXTRA_GRACE)) < self.now
    }

    /// Returns why a pod's controller blocks the removal: it is gone, or has too few replicas. Kinds named DaemonSet or StatefulSet in
    /// other API groups are ignored.
    fn controller_problem(&self, pod: &Pod) -> Option<Blocking> {
        let owner = pod.owner.as_ref().filter(|_| self.settings.skip_custom_controller_pods)?;
        let counts_replicas = match &*owner.kind {
            "ReplicationController" | "ReplicaSet" => true,
            "Job" => false,
            "StatefulSet" | "DaemonSet" if is_of_apps(owner) => false,
            _ => return None,
        };
        match self.workloads.get(&(&*owner.kind, &*pod.spec.namespace, &*owner.name)) {
            None => Some(Blocking::ControllerNotFound),
            Some(replicas) if counts_replicas && *replicas < self.settings.min_replica_count => {
                Some(Blocking::MinReplicasReached)
            }
            Some(_) => None,
        }
    }

    fn is_replicated(&self, pod: &Pod) -> bool {
        let known = ["ReplicationController", "Job", "ReplicaSet", "StatefulSet"];
        pod.owner.as_ref().is_some_and(|owner| {
            !self.settings.skip_custom_controller_pods || known.contains(&&*owner.kind)
        })
    }

    fn is_young(&self, pod: &Pod) -> bool {
        pod.created_at.is_none_or(|at| after(at, self.settings.system_pod_grace) >= self.now)
    }
}

fn is_of_apps(owner: &Owner) -> bool {
    owner.api_version.starts_with("apps/")
}

/// Returns a later time, saturating.
pub(super) fn after(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::nodes::{Drain, PodSpec};

    const NOW: i64 = 100_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> Option<Arc<Owner>> {
        Some(Arc::new(Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: name.into(),
        }))
    }

    /// Returns an ordinary pod: it is evicted within its budget.
    fn plain() -> Pod {
        Pod { owner: owner("apps/v1", "ReplicaSet", "r"), ..in_namespace("default") }
    }

    fn in_namespace(namespace: &str) -> Pod {
        let spec = PodSpec { namespace: namespace.into(), ..PodSpec::default() };
        Pod { name: "p".into(), spec: Arc::new(spec), ..Pod::default() }
    }

    fn with(drain: Drain) -> Pod {
        Pod { drain, ..plain() }
    }

    fn system(age: i64) -> Pod {
        Pod { created_at: Some(at(NOW - age)), owner: plain().owner, ..in_namespace("kube-system") }
    }

    fn annotated(safe_to_evict: SafeToEvict) -> Drain {
        Drain { safe_to_evict, ..Drain::default() }
    }

    fn ending(ago: i64, grace: Option<i64>) -> Drain {
        let grace = grace.map(SignedDuration::from_secs);
        Drain { deletes_at: Some(at(NOW - ago)), grace, ..Drain::default() }
    }

    fn local() -> Drain {
        Drain { has_local_storage: true, ..Drain::default() }
    }

    /// Returns the existing controllers: one of each kind, named `r`, with 2 replicas.
    fn workloads() -> Vec<Workload> {
        ["ReplicaSet", "ReplicationController", "StatefulSet", "Job", "DaemonSet"]
            .iter()
            .flat_map(|kind| {
                ["default", "kube-system"].map(|namespace| Workload {
                    kind: (*kind).into(),
                    namespace: namespace.into(),
                    name: "r".into(),
                    replicas: 2,
                })
            })
            .collect()
    }

    fn check(settings: &ScaleDownSettings, cases: &[(&str, Pod, bool, DrainOutcome)]) {
        let workloads = workloads();
        let rules = Rules::new(settings, &workloads, at(NOW));
        for (what, pod, has_budget, wanted) in cases {
            assert_eq!(rules.drain_outcome(pod, *has_budget), *wanted, "{what}");
        }
    }

    #[test]
    fn a_game_server_moves_unless_it_is_in_use() {
        let used = |game_server, safe| {
            let owner = owner("agones.dev/v1", "GameServer", "p");
            Pod { game_server, owner, ..with(annotated(safe)) }
        };
        let finished = Drain { is_finished: true, ..Drain::default() };
        use GameServerUse::{Allocated, Ending, Idle, Reserved};
        let blocks = DrainOutcome::Blocks;
        for has_budget in [false, true] {
            check(
                &ScaleDownSettings::default(),
                &[
                    ("idle", used(Some(Idle), SafeToEvict::No), has_budget, DrainOutcome::Replaced),
                    (
                        "idle, and safe to evict",
                        used(Some(Idle), SafeToEvict::Yes),
                        has_budget,
                        DrainOutcome::Replaced,
                    ),
                    (
                        "allocated",
                        used(Some(Allocated), SafeToEvict::Yes),
                        has_budget,
                        blocks(Blocking::GameServerAllocated),
                    ),
                    (
                        "reserved",
                        used(Some(Reserved), SafeToEvict::Unset),
                        has_budget,
                        blocks(Blocking::GameServerReserved),
                    ),
                    (
                        "about to go",
                        used(Some(Ending), SafeToEvict::No),
                        has_budget,
                        DrainOutcome::AwaitedToEnd,
                    ),
                    (
                        "gone already",
                        Pod { drain: finished.clone(), ..used(Some(Allocated), SafeToEvict::No) },
                        has_budget,
                        DrainOutcome::Ignored,
                    ),
                    (
                        "fleets are left alone",
                        used(None, SafeToEvict::No),
                        has_budget,
                        blocks(Blocking::NotReplicated),
                    ),
                ],
            );
        }
    }

    #[test]
    fn rules_1_and_2_ignore_terminated_and_mirror_pods() {
        let mirror = Drain { is_mirror: true, ..annotated(SafeToEvict::No) };
        check(
            &ScaleDownSettings::default(),
            &[
                ("mirror", Pod { owner: None, ..with(mirror) }, false, DrainOutcome::Ignored),
                (
                    "60 s after its end",
                    with(ending(60, None)),
                    false,
                    DrainOutcome::MovedWithinBudget,
                ),
                ("61 s after its end", with(ending(61, None)), false, DrainOutcome::Ignored),
                ("long grace", with(ending(61, Some(60))), false, DrainOutcome::MovedWithinBudget),
                ("past a long grace", with(ending(91, Some(60))), false, DrainOutcome::Ignored),
                (
                    "grace without end",
                    with(ending(61, Some(i64::MAX))),
                    false,
                    DrainOutcome::MovedWithinBudget,
                ),
            ],
        );
    }

    #[test]
    fn rule_3_requires_the_controller() {
        let of = |api, kind, name| Pod { owner: owner(api, kind, name), ..plain() };
        let gone = DrainOutcome::Blocks(Blocking::ControllerNotFound);
        let few = DrainOutcome::Blocks(Blocking::MinReplicasReached);
        let moved = DrainOutcome::MovedWithinBudget;
        let safe =
            Pod { owner: owner("apps/v1", "ReplicaSet", "x"), ..with(annotated(SafeToEvict::Yes)) };
        let settings = ScaleDownSettings { min_replica_count: 3, ..Default::default() };
        check(
            &settings,
            &[
                ("ReplicaSet gone", of("apps/v1", "ReplicaSet", "x"), false, gone),
                ("gone, though safe to evict", safe, false, gone),
                ("Job gone", of("batch/v1", "Job", "x"), false, gone),
                ("DaemonSet gone", of("apps/v1", "DaemonSet", "x"), false, gone),
                ("few replicas", of("apps/v1", "ReplicaSet", "r"), false, few),
                ("few replicas", of("v1", "ReplicationController", "r"), false, few),
                ("StatefulSets are not counted", of("apps/v1", "StatefulSet", "r"), false, moved),
                (
                    "another's StatefulSet",
                    of("apps.kruise.io/v1", "StatefulSet", "x"),
                    false,
                    moved,
                ),
            ],
        );
        let lax = ScaleDownSettings { skip_custom_controller_pods: false, ..settings };
        check(&lax, &[("not checked", of("apps/v1", "ReplicaSet", "x"), false, moved)]);
    }

    #[test]
    fn rules_4_to_7_are_about_daemons_and_annotations() {
        let is_marked_daemon = Drain { is_marked_daemon: true, ..annotated(SafeToEvict::No) };
        let safe = Drain { has_local_storage: true, ..annotated(SafeToEvict::Yes) };
        let waits = annotated(SafeToEvict::OnCompletion);
        check(
            &ScaleDownSettings::default(),
            &[
                (
                    "DaemonSet",
                    Pod { owner: owner("apps/v1", "DaemonSet", "r"), ..plain() },
                    false,
                    DrainOutcome::Daemon,
                ),
                (
                    "by annotation",
                    Pod { owner: None, ..with(is_marked_daemon) },
                    false,
                    DrainOutcome::Daemon,
                ),
                (
                    "safe in spite of all",
                    Pod { owner: None, ..with(safe) },
                    true,
                    DrainOutcome::Moved,
                ),
                (
                    "finished",
                    with(Drain { is_finished: true, ..waits.clone() }),
                    false,
                    DrainOutcome::Ignored,
                ),
                (
                    "on completion",
                    Pod { owner: None, ..with(waits) },
                    false,
                    DrainOutcome::AwaitedToEnd,
                ),
            ],
        );
    }

    #[test]
    fn rule_8_requires_a_controller_that_recreates_the_pod() {
        let custom = || Pod { owner: owner("x.io/v1", "Thing", "t"), ..plain() };
        let blocked = DrainOutcome::Blocks(Blocking::NotReplicated);
        let settings = ScaleDownSettings::default();
        check(
            &settings,
            &[
                ("no controller", in_namespace("default"), false, blocked),
                ("no controller in kube-system", in_namespace("kube-system"), true, blocked),
                ("an unknown controller", custom(), false, blocked),
            ],
        );
        let lax = ScaleDownSettings { skip_custom_controller_pods: false, ..settings };
        check(
            &lax,
            &[
                ("an unknown controller", custom(), false, DrainOutcome::MovedWithinBudget),
                ("no controller", in_namespace("default"), false, blocked),
            ],
        );
    }

    #[test]
    fn rule_9_blocks_new_system_pods_for_a_grace_period() {
        let young = DrainOutcome::Blocks(Blocking::UnmovableKubeSystemPod);
        let no_birthday = Pod { created_at: None, ..system(0) };
        let stubborn = Pod { drain: Drain { ..local() }, ..system(3601) };
        let settings = ScaleDownSettings::default();
        check(
            &settings,
            &[
                ("at its hour", system(3600), false, young),
                ("past its hour", system(3601), false, DrainOutcome::Moved),
                ("past its hour, with an emptyDir", stubborn, false, DrainOutcome::Moved),
                ("of unknown age", no_birthday, false, young),
                ("with a budget", system(1), true, DrainOutcome::MovedWithinBudget),
            ],
        );
        let lax = ScaleDownSettings { skip_system_pods: false, ..settings };
        check(&lax, &[("not special", system(1), false, DrainOutcome::MovedWithinBudget)]);
    }

    #[test]
    fn rules_10_to_12_are_about_all_other_pods() {
        let settings = ScaleDownSettings::default();
        let kept = DrainOutcome::Blocks(Blocking::LocalStorageRequested);
        let refused = DrainOutcome::Blocks(Blocking::NotSafeToEvictAnnotation);
        check(
            &settings,
            &[
                ("must not be evicted", with(annotated(SafeToEvict::No)), false, refused),
                ("local storage", with(local()), false, kept),
                ("nothing special", plain(), false, DrainOutcome::MovedWithinBudget),
            ],
        );
        let lax = ScaleDownSettings { skip_local_storage: false, ..settings };
        check(&lax, &[("local storage", with(local()), false, DrainOutcome::MovedWithinBudget)]);
    }
}
