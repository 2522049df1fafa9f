//! What happens to a pod when its node goes: is it moved, left alone, or does it keep the node?
//!
//! The rules are Cluster Autoscaler's, in its order: the first one that has an answer decides.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::{Owner, Pod, SafeToEvict, ScaleDownSettings, Workload};
use crate::Reason;

/// What is to become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is gone already, or goes with its node, and nobody has to care.
    Ignored,
    /// It belongs to the node: a new one comes with each node.
    Daemon,
    /// It is moved. It does not matter what its budgets allow.
    Moved,
    /// It is moved if its budgets allow it.
    MovedWithinBudget,
    /// The node waits until it has ended by itself.
    AwaitedToEnd,
    /// It keeps the node.
    Blocks(Blocking),
}

/// Why a pod keeps its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocking {
    ControllerNotFound,
    MinReplicasReached,
    NotReplicated,
    UnmovableKubeSystemPod,
    NotSafeToEvictAnnotation,
    LocalStorageRequested,
    NotEnoughPdb,
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
        }
    }
}

impl fmt::Display for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControllerNotFound => "its controller does not exist any more",
            Self::MinReplicasReached => "its controller has too few replicas",
            Self::NotReplicated => "nothing would create it again",
            Self::UnmovableKubeSystemPod => "it is a young kube-system pod without a budget",
            Self::NotSafeToEvictAnnotation => "its annotation says that it must not be evicted",
            Self::LocalStorageRequested => "it keeps data on the node",
            Self::NotEnoughPdb => "its disruption budget is used up",
        })
    }
}

/// What the rules look at besides the pod.
#[derive(Clone)]
pub(super) struct Rules<'a> {
    settings: &'a ScaleDownSettings,
    now: Timestamp,
    /// Replicas by kind, namespace and name.
    workloads: BTreeMap<(&'a str, &'a str, &'a str), i32>,
}

/// How long a pod that was asked to end may take, when it does not say.
const DEFAULT_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// How much longer than its grace a pod may take before it counts as gone.
const EXTRA_GRACE: SignedDuration = SignedDuration::from_secs(30);

impl<'a> Rules<'a> {
    /// Gathers what the rules look at.
    pub(super) fn new(
        settings: &'a ScaleDownSettings,
        workloads: &'a [Workload],
        now: Timestamp,
    ) -> Self {
        let key = |w: &'a Workload| ((&*w.kind, &*w.namespace, &*w.name), w.replicas);
        Self { settings, now, workloads: workloads.iter().map(key).collect() }
    }

    /// Decides about a pod. `has_budget`: whether a disruption budget covers it.
    pub(super) fn fate(&self, pod: &Pod, has_budget: bool) -> Fate {
        if pod.drain.is_mirror || pod.drain.is_finished || self.is_long_gone(pod) {
            return Fate::Ignored;
        }
        if let Some(blocking) = self.controller_problem(pod) {
            return Fate::Blocks(blocking);
        }
        if pod.is_daemon() {
            return Fate::Daemon;
        }
        match pod.drain.safe_to_evict {
            SafeToEvict::Yes => return Fate::Moved,
            SafeToEvict::OnCompletion => return Fate::AwaitedToEnd,
            SafeToEvict::Unsaid | SafeToEvict::No => {}
        }
        if !self.is_replicated(pod) {
            return Fate::Blocks(Blocking::NotReplicated);
        }
        if self.settings.skip_system_pods && &*pod.spec.namespace == "kube-system" && !has_budget {
            return match self.is_young(pod) {
                true => Fate::Blocks(Blocking::UnmovableKubeSystemPod),
                false => Fate::Moved,
            };
        }
        if pod.drain.safe_to_evict == SafeToEvict::No {
            return Fate::Blocks(Blocking::NotSafeToEvictAnnotation);
        }
        if self.settings.skip_local_storage && pod.drain.has_local_storage {
            return Fate::Blocks(Blocking::LocalStorageRequested);
        }
        Fate::MovedWithinBudget
    }

    /// Tells whether a pod should have ended some time ago. Its deletion time already contains its grace, which is
    /// given once more.
    pub(super) fn is_long_gone(&self, pod: &Pod) -> bool {
        let Some(at) = pod.drain.deletes_at else { return false };
        let grace = pod.drain.grace.unwrap_or(DEFAULT_GRACE);
        after(at, grace.saturating_add(EXTRA_GRACE)) < self.now
    }

    /// A pod whose controller is gone, or has too few replicas, keeps its node. What other groups call a DaemonSet or
    /// a StatefulSet is not known here.
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

/// Gives a later moment; past the end of time it is the end of time.
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

    /// A pod that nothing is special about: it moves within its budget.
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

    fn says(safe_to_evict: SafeToEvict) -> Drain {
        Drain { safe_to_evict, ..Drain::default() }
    }

    fn ending(ago: i64, grace: Option<i64>) -> Drain {
        let grace = grace.map(SignedDuration::from_secs);
        Drain { deletes_at: Some(at(NOW - ago)), grace, ..Drain::default() }
    }

    fn local() -> Drain {
        Drain { has_local_storage: true, ..Drain::default() }
    }

    /// The existing controllers: one of each kind, named `r`, with 2 replicas.
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

    fn check(settings: &ScaleDownSettings, cases: &[(&str, Pod, bool, Fate)]) {
        let workloads = workloads();
        let rules = Rules::new(settings, &workloads, at(NOW));
        for (what, pod, has_budget, wanted) in cases {
            assert_eq!(rules.fate(pod, *has_budget), *wanted, "{what}");
        }
    }

    #[test]
    fn rules_1_and_2_leave_alone_what_is_not_really_there() {
        let mirror = Drain { is_mirror: true, ..says(SafeToEvict::No) };
        check(
            &ScaleDownSettings::default(),
            &[
                ("mirror", Pod { owner: None, ..with(mirror) }, false, Fate::Ignored),
                ("60 s after its end", with(ending(60, None)), false, Fate::MovedWithinBudget),
                ("61 s after its end", with(ending(61, None)), false, Fate::Ignored),
                ("long grace", with(ending(61, Some(60))), false, Fate::MovedWithinBudget),
                ("past a long grace", with(ending(91, Some(60))), false, Fate::Ignored),
                (
                    "grace without end",
                    with(ending(61, Some(i64::MAX))),
                    false,
                    Fate::MovedWithinBudget,
                ),
            ],
        );
    }

    #[test]
    fn rule_3_looks_for_the_controller() {
        let of = |api, kind, name| Pod { owner: owner(api, kind, name), ..plain() };
        let gone = Fate::Blocks(Blocking::ControllerNotFound);
        let few = Fate::Blocks(Blocking::MinReplicasReached);
        let moved = Fate::MovedWithinBudget;
        let safe =
            Pod { owner: owner("apps/v1", "ReplicaSet", "x"), ..with(says(SafeToEvict::Yes)) };
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
        check(&lax, &[("not looked for", of("apps/v1", "ReplicaSet", "x"), false, moved)]);
    }

    #[test]
    fn rules_4_to_7_settle_what_belongs_to_the_node_or_says_so_itself() {
        let says_daemon = Drain { says_daemon: true, ..says(SafeToEvict::No) };
        let safe = Drain { has_local_storage: true, ..says(SafeToEvict::Yes) };
        let waits = says(SafeToEvict::OnCompletion);
        check(
            &ScaleDownSettings::default(),
            &[
                (
                    "DaemonSet",
                    Pod { owner: owner("apps/v1", "DaemonSet", "r"), ..plain() },
                    false,
                    Fate::Daemon,
                ),
                ("by annotation", Pod { owner: None, ..with(says_daemon) }, false, Fate::Daemon),
                ("safe in spite of all", Pod { owner: None, ..with(safe) }, true, Fate::Moved),
                (
                    "finished",
                    with(Drain { is_finished: true, ..waits.clone() }),
                    false,
                    Fate::Ignored,
                ),
                ("on completion", Pod { owner: None, ..with(waits) }, false, Fate::AwaitedToEnd),
            ],
        );
    }

    #[test]
    fn rule_8_wants_somebody_to_create_the_pod_again() {
        let custom = || Pod { owner: owner("x.io/v1", "Thing", "t"), ..plain() };
        let blocked = Fate::Blocks(Blocking::NotReplicated);
        let settings = ScaleDownSettings::default();
        check(
            &settings,
            &[
                ("no controller", in_namespace("default"), false, blocked),
                ("no controller in kube-system", in_namespace("kube-system"), true, blocked),
                ("a controller nobody knows", custom(), false, blocked),
            ],
        );
        let lax = ScaleDownSettings { skip_custom_controller_pods: false, ..settings };
        check(
            &lax,
            &[
                ("a controller nobody knows", custom(), false, Fate::MovedWithinBudget),
                ("no controller", in_namespace("default"), false, blocked),
            ],
        );
    }

    #[test]
    fn rule_9_keeps_young_system_pods_for_their_grace() {
        let young = Fate::Blocks(Blocking::UnmovableKubeSystemPod);
        let no_birthday = Pod { created_at: None, ..system(0) };
        let stubborn = Pod { drain: Drain { ..local() }, ..system(3601) };
        let settings = ScaleDownSettings::default();
        check(
            &settings,
            &[
                ("at its hour", system(3600), false, young),
                ("past its hour", system(3601), false, Fate::Moved),
                ("past its hour, with an emptyDir", stubborn, false, Fate::Moved),
                ("of unknown age", no_birthday, false, young),
                ("with a budget", system(1), true, Fate::MovedWithinBudget),
            ],
        );
        let lax = ScaleDownSettings { skip_system_pods: false, ..settings };
        check(&lax, &[("not special", system(1), false, Fate::MovedWithinBudget)]);
    }

    #[test]
    fn rules_10_to_12_are_for_what_is_left() {
        let settings = ScaleDownSettings::default();
        let kept = Fate::Blocks(Blocking::LocalStorageRequested);
        let refused = Fate::Blocks(Blocking::NotSafeToEvictAnnotation);
        check(
            &settings,
            &[
                ("must not be evicted", with(says(SafeToEvict::No)), false, refused),
                ("local storage", with(local()), false, kept),
                ("nothing special", plain(), false, Fate::MovedWithinBudget),
            ],
        );
        let lax = ScaleDownSettings { skip_local_storage: false, ..settings };
        check(&lax, &[("local storage", with(local()), false, Fate::MovedWithinBudget)]);
    }
}
