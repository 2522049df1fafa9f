//! How a node is removed: what no decision reads, but the removal itself.

use std::time::Duration;

use api::plimsoll::Span;
use api::plimsoll::node_autoscaler::ScaleDown;
use k8s_openapi::api::core::v1::Pod;

/// The annotation by which a pod of a DaemonSet asks to be evicted, or not.
const EVICT_DAEMON: &str = "cluster-autoscaler.kubernetes.io/enable-ds-eviction";
/// The grace period of a pod that names none, in seconds.
const DEFAULT_GRACE: u64 = 30;

/// How nodes are removed.
#[derive(Clone, Debug)]
pub(super) struct RemovalOptions {
    pub(super) cordon: bool,
    pub(super) delay_after_taint: Duration,
    pub(super) max_deletion_delay: Duration,
    pub(super) batch_interval: Duration,
    pub(super) max_eviction_time: Duration,
    evict_daemons_of_empty: bool,
    evict_daemons_of_occupied: bool,
    /// Whether pods of DaemonSets are drained like all others, because there are steps.
    drains_daemons: bool,
    /// The lowest priority of each step of a drain with the longest grace period of its pods, in order; never empty.
    steps: Vec<(i32, Duration)>,
}

/// The pods that are evicted from a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Evictions<'a> {
    /// The steps in order: the pods of each have to be gone before the next one begins.
    pub(super) steps: Vec<EvictionStep<'a>>,
    /// Pods of DaemonSets that are requested to end, so that they shut down cleanly. The removal does not wait for them.
    pub(super) best_effort: Vec<&'a Pod>,
}

/// Pods that are evicted at the same time.
#[derive(Debug, PartialEq)]
pub(super) struct EvictionStep<'a> {
    pub(super) pods: Vec<&'a Pod>,
    pub(super) max_grace: Duration,
}

impl From<&ScaleDown> for RemovalOptions {
    fn from(spec: &ScaleDown) -> Self {
        let time = |span: Span| Duration::try_from(span.0).unwrap_or_default();
        let own = spec.drain_priorities.iter().map(|step| (step.priority, time(step.grace)));
        let mut steps: Vec<(i32, Duration)> = own.collect();
        steps.sort_by_key(|(priority, _)| *priority);
        let drains_daemons = !steps.is_empty();
        if steps.is_empty() {
            steps.push((i32::MIN, time(spec.max_graceful_termination)));
        }
        Self {
            cordon: spec.cordon,
            delay_after_taint: time(spec.delay_after_taint),
            max_deletion_delay: time(spec.max_deletion_delay),
            batch_interval: time(spec.batch_interval),
            max_eviction_time: time(spec.max_eviction_time),
            evict_daemons_of_empty: spec.evict_daemon_sets_of_empty_nodes,
            evict_daemons_of_occupied: spec.evict_daemon_sets_of_occupied_nodes,
            drains_daemons,
            steps,
        }
    }
}

impl RemovalOptions {
    /// Returns the order in which the pods of a node are evicted: those of lower priorities first.
    pub(super) fn evictions<'a>(&self, pods: &'a [Pod], daemons: &'a [Pod]) -> Evictions<'a> {
        let is_evicted = match pods.is_empty() {
            true => self.evict_daemons_of_empty,
            false => self.evict_daemons_of_occupied,
        };
        let asks = |pod: &Pod| {
            let annotations = pod.metadata.annotations.as_ref();
            annotations.and_then(|all| all.get(EVICT_DAEMON)).map(|text| text == "true")
        };
        let daemons = daemons.iter().filter(|pod| asks(pod).unwrap_or(is_evicted));
        let (drained, best_effort): (Vec<&Pod>, Vec<&Pod>) = match self.drains_daemons {
            true => (pods.iter().chain(daemons).collect(), Vec::new()),
            false => (pods.iter().collect(), daemons.collect()),
        };
        let mut steps: Vec<EvictionStep<'_>> = Vec::new();
        for (index, (_, max_grace)) in self.steps.iter().enumerate() {
            let pods = drained.iter().copied().filter(|pod| self.step_of(pod) == index);
            steps.push(EvictionStep { pods: pods.collect(), max_grace: *max_grace });
        }
        steps.retain(|step| !step.pods.is_empty());
        Evictions { steps, best_effort }
    }

    /// Returns the last step whose priority a pod has; the first one also has those below it.
    fn step_of(&self, pod: &Pod) -> usize {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        self.steps.partition_point(|(lowest, _)| *lowest <= priority).saturating_sub(1)
    }

    /// Returns the longest grace period of pods that are evicted with best effort.
    pub(super) fn longest_grace(&self) -> Duration {
        self.steps.iter().map(|(_, grace)| *grace).max().unwrap_or_default()
    }
}

/// Returns the grace period of a pod, which is no longer than `max`.
pub(super) fn grace(pod: &Pod, max: Duration) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let own = own.map_or(DEFAULT_GRACE, |seconds| u64::try_from(seconds).unwrap_or(0));
    Duration::from_secs(own).min(max)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, priority: i32, annotations: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [], "priority": priority},
        }))
        .unwrap()
    }

    fn names(evictions: &Evictions<'_>) -> (Vec<(u64, Vec<String>)>, Vec<String>) {
        let name = |pod: &&Pod| pod.metadata.name.clone().unwrap();
        let step = |step: &EvictionStep<'_>| {
            (step.max_grace.as_secs(), step.pods.iter().map(name).collect())
        };
        (
            evictions.steps.iter().map(step).collect(),
            evictions.best_effort.iter().map(name).collect(),
        )
    }

    #[test]
    fn pods_are_evicted_in_steps_of_rising_priority() {
        let pods = [-5, 0, 99, 100, 2000].map(|p| pod(&format!("p{p}"), p, json!({})));
        let daemons = [pod("d", 2000, json!({}))];
        let text = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let ten_minutes = vec![(600, text(&["p-5", "p0", "p99", "p100", "p2000"]))];
        for (spec, wanted, best_effort) in [
            (json!({}), ten_minutes, text(&["d"])),
            (
                json!({"drainPriorities": [
                    {"priority": 1000, "grace": "1s"}, {"priority": 0, "grace": "9s"},
                    {"priority": 100, "grace": "5s"},
                ]}),
                vec![
                    (9, text(&["p-5", "p0", "p99"])),
                    (5, text(&["p100"])),
                    (1, text(&["p2000", "d"])),
                ],
                Vec::new(),
            ),
        ] {
            let scale_down: ScaleDown = serde_json::from_value(spec.clone()).unwrap();
            let options = RemovalOptions::from(&scale_down);
            assert_eq!(names(&options.evictions(&pods, &daemons)), (wanted, best_effort), "{spec}");
        }
    }

    #[test]
    fn pods_of_daemon_sets_are_evicted_as_the_options_and_their_annotations_say() {
        let asks = |value: &str| json!({EVICT_DAEMON: value});
        let daemons =
            [pod("plain", 0, json!({})), pod("yes", 0, asks("true")), pod("no", 0, asks("false"))];
        let others = [pod("p", 0, json!({}))];
        for (empty, occupied, pods, wanted) in [
            (false, true, &[] as &[Pod], &["yes"] as &[&str]),
            (true, true, &[], &["plain", "yes"]),
            (false, true, &others, &["plain", "yes"]),
            (false, false, &others, &["yes"]),
        ] {
            let spec = ScaleDown {
                evict_daemon_sets_of_empty_nodes: empty,
                evict_daemon_sets_of_occupied_nodes: occupied,
                ..ScaleDown::default()
            };
            let options = RemovalOptions::from(&spec);
            let (_, best_effort) = names(&options.evictions(pods, &daemons));
            assert_eq!(best_effort, wanted, "{empty} {occupied} {}", pods.len());
        }
    }

    #[test]
    fn a_grace_period_is_bounded() {
        for (own, max, wanted) in [(None, 600, 30), (Some(900), 600, 600), (Some(-1), 600, 0)] {
            let mut pod = pod("p", 0, json!({}));
            pod.spec.as_mut().unwrap().termination_grace_period_seconds = own;
            let found = grace(&pod, Duration::from_secs(max));
            assert_eq!(found.as_secs(), wanted, "{own:?}");
        }
    }
}
