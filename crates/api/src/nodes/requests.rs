//! The resource requests of a pod, as the scheduler counts them.

use std::collections::BTreeMap;

use decide::nodes::Resources;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Returns the effective request: the larger of all containers together and the peak while the pod starts, or what the
/// pod as a whole asks for, plus overhead. A resize under way counts with the larger of old and new.
pub(super) fn of_pod(spec: &PodSpec, status: Option<&PodStatus>) -> Resources {
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&asked(container, status));
    }
    let mut sidecars = Amounts::default();
    let mut peak = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut now = asked(container, status);
        if is_sidecar(container) {
            sidecars.add(&now);
            now = Amounts::default();
        }
        now.add(&sidecars);
        peak.raise(&now);
    }
    total.add(&sidecars);
    total.raise(&peak);
    let whole = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    for (name, quantity) in whole.into_iter().flatten() {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            *total.amount_mut(name) = amount(name, quantity);
        }
    }
    for (name, quantity) in spec.overhead.iter().flatten() {
        let sum = total.amount_mut(name);
        *sum = sum.saturating_add(amount(name, quantity));
    }
    let amounts = total.iter().filter(|(name, _)| *name != "pods");
    amounts.map(|(name, amount)| (name, amount.min(MOST))).collect()
}

/// Amounts by name. Nearly every pod requests only cpu and memory.
#[derive(Default)]
struct Amounts<'a> {
    cpu: i64,
    memory: i64,
    other: Vec<(&'a str, i64)>,
}

impl<'a> Amounts<'a> {
    /// Returns the place of one amount, which starts at zero.
    fn amount_mut(&mut self, name: &'a str) -> &mut i64 {
        match name {
            "cpu" => &mut self.cpu,
            "memory" => &mut self.memory,
            _ => {
                let found = self.other.iter().position(|(n, _)| *n == name);
                let at = found.unwrap_or_else(|| {
                    self.other.push((name, 0));
                    self.other.len() - 1
                });
                &mut self.other[at].1
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&'a str, i64)> {
        let known = [("cpu", self.cpu), ("memory", self.memory)];
        known.into_iter().chain(self.other.iter().copied())
    }

    fn add(&mut self, more: &Self) {
        for (name, amount) in more.iter() {
            let sum = self.amount_mut(name);
            *sum = sum.saturating_add(amount);
        }
    }

    fn raise(&mut self, least: &Self) {
        for (name, amount) in least.iter() {
            let larger = self.amount_mut(name);
            *larger = (*larger).max(amount);
        }
    }
}

/// The most of one resource that a pod or a node is taken to have: a pebibyte, and so much of anything else. Sums over
/// whole nodes stay exact that way, whatever a file contains.
const MOST: i64 = 1 << 50;

/// Returns whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Reads an amount: `cpu` in thousandths, everything else in whole units, never below zero.
pub(super) fn amount(name: &str, quantity: &Quantity) -> i64 {
    if let Some(amount) = plain(name == "cpu", &quantity.0) {
        return amount;
    }
    let quantity = crate::quantity::Quantity::parse(&quantity.0).unwrap_or_default();
    let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
    amount.max(0)
}

/// Reads the amounts that nearly everybody writes, such as `250m`, `4` and `512Mi`, which need no exact arithmetic.
fn plain(is_cpu: bool, text: &str) -> Option<i64> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = text.split_at(end);
    let number: i64 = digits.parse().ok()?;
    let unit: i64 = match (is_cpu, suffix) {
        (true, "m") | (false, "") => 1,
        (true, "") => 1000,
        (false, "Ki") => 1 << 10,
        (false, "Mi") => 1 << 20,
        (false, "Gi") => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Reads what a node has.
pub(super) fn all(amounts: Option<&BTreeMap<String, Quantity>>) -> Resources {
    let amounts = amounts.into_iter().flatten();
    amounts.map(|(name, q)| (name.as_str(), amount(name, q).min(MOST))).collect()
}

/// Returns the requests of one container. Where it only has a limit, that is its request, as the API server fills it in.
fn asked<'a>(container: &'a Container, status: Option<&'a PodStatus>) -> Amounts<'a> {
    let mut out = Amounts::default();
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|r| r.limits.as_ref());
    let requests = resources.and_then(|r| r.requests.as_ref());
    for (name, quantity) in limits.into_iter().flatten().chain(requests.into_iter().flatten()) {
        *out.amount_mut(name) = amount(name, quantity);
    }
    let Some(given) = status.and_then(|s| status_of(container, s)) else { return out };
    if status.is_some_and(is_infeasible) {
        out = Amounts::default();
    }
    let actual = given.resources.as_ref().and_then(|r| r.requests.as_ref());
    for (name, quantity) in
        given.allocated_resources.iter().flatten().chain(actual.into_iter().flatten())
    {
        let larger = out.amount_mut(name);
        *larger = (*larger).max(amount(name, quantity));
    }
    out
}

fn status_of<'a>(container: &Container, status: &'a PodStatus) -> Option<&'a ContainerStatus> {
    let all = status.container_statuses.iter().flatten();
    let mut all = all.chain(status.init_container_statuses.iter().flatten());
    all.find(|s| {
        s.name == container.name && (s.allocated_resources.is_some() || s.resources.is_some())
    })
}

/// Returns whether a resize was requested for which the node has no capacity.
fn is_infeasible(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| {
        c.type_ == "PodResizePending"
            && c.status == "True"
            && c.reason.as_deref() == Some("Infeasible")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requests(pod: Value) -> (i64, i64) {
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        let found = of_pod(&pod.spec.unwrap(), pod.status.as_ref());
        (found.cpu, found.memory)
    }

    fn asks(cpu: &str) -> Value {
        json!({"name": cpu, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn the_larger_of_start_and_run_counts() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always",
                             "resources": {"requests": {"cpu": "300m"}}});
        for (spec, cpu) in [
            (json!({"containers": [asks("1"), asks("500m")]}), 1500),
            (json!({"containers": [asks("1")], "initContainers": [asks("2")]}), 2000),
            (json!({"containers": [asks("1")], "initContainers": [sidecar]}), 1300),
            (json!({"containers": [asks("1")], "initContainers": [sidecar, asks("1")]}), 1300),
            (json!({"containers": [asks("1")], "initContainers": [asks("1500m"), sidecar]}), 1500),
            (json!({"containers": [asks("1")], "overhead": {"cpu": "50m"}}), 1050),
            (
                json!({"containers": [asks("1")], "overhead": {"cpu": "50m"},
                       "resources": {"requests": {"cpu": "2"}}}),
                2050,
            ),
            (json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]}), 3000),
            (json!({"containers": [asks("1e3")]}), 1_000_000),
            (json!({"containers": [asks("nonsense")]}), 0),
            (json!({"containers": [asks("8E"), asks("8E")]}), MOST),
        ] {
            assert_eq!(requests(json!({"spec": spec})).0, cpu, "{spec}");
        }
    }

    #[test]
    fn the_fast_parser_agrees_with_the_exact_one() {
        let texts =
            ["0", "250m", "4", "512Mi", "1Ki", "3Gi", "9223372036854775807", "8589934592Gi"];
        for text in texts {
            let exact = crate::quantity::Quantity::parse(text).unwrap();
            for (is_cpu, wanted) in [(true, exact.milli_value()), (false, exact.value())] {
                let read = plain(is_cpu, text);
                assert!(read.is_none_or(|read| read == wanted), "{text} is {wanted}, not {read:?}");
            }
        }
        assert_eq!(plain(true, "250m"), Some(250));
        assert_eq!(plain(false, "512Mi"), Some(512 << 20));
        assert!(plain(false, "-1").is_none() && plain(false, "").is_none());
    }

    #[test]
    fn a_resize_counts_with_the_larger_side_unless_it_is_infeasible() {
        let status = |conditions: Value| {
            json!({"conditions": conditions, "containerStatuses": [{
                "name": "4", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}
            }]})
        };
        let infeasible =
            json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        for (conditions, cpu) in [(json!([]), 4000), (infeasible, 3000)] {
            let pod = json!({"spec": {"containers": [asks("4")]}, "status": status(conditions)});
            assert_eq!(requests(pod).0, cpu);
        }
    }
}
