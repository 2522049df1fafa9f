//! The totals of this machine's pods as kubelet's `/metrics/resource` has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::machine::Machine;
use crate::meter::{Sample, Total};

/// Names a series, its type, its help text, and how its value is read.
type Series = (&'static str, &'static str, &'static str, fn(&Total) -> String);

const CONTAINERS: [Series; 2] = [
    (
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
        cpu_seconds,
    ),
    (
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
        memory_bytes,
    ),
];
const PODS: [Series; 2] = [
    (
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
        cpu_seconds,
    ),
    (
        "pod_memory_working_set_bytes",
        "gauge",
        "Current working set of the pod in bytes",
        memory_bytes,
    ),
];
const NODE: [Series; 2] = [
    (
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
        cpu_seconds,
    ),
    (
        "node_memory_working_set_bytes",
        "gauge",
        "Current working set of the node in bytes",
        memory_bytes,
    ),
];

fn cpu_seconds(total: &Total) -> String {
    format!("{}", total.cpu_nanos as f64 / 1e9)
}

fn memory_bytes(total: &Total) -> String {
    total.memory_bytes.to_string()
}

/// Returns a sample in Prometheus' text format.
pub(super) fn render(machine: &Machine, sample: &Sample) -> String {
    let at = machine.context.clock.now().as_millisecond();
    let named: BTreeMap<String, (String, String)> = machine
        .pods
        .list()
        .iter()
        .filter_map(|pod| {
            let meta = &pod.metadata;
            Some((meta.uid.clone()?, (meta.namespace.clone()?, meta.name.clone()?)))
        })
        .collect();
    let mut containers = Vec::new();
    let mut pods: BTreeMap<&str, (String, Total)> = BTreeMap::new();
    for ((uid, container), total) in &sample.containers {
        // Names of namespaces, pods and containers need no escaping.
        let Some((namespace, pod)) = named.get(&**uid) else { continue };
        let labels = format!("namespace=\"{namespace}\",pod=\"{pod}\"");
        containers.push((format!("{{container=\"{container}\",{labels}}}"), *total));
        let (_, sum) =
            pods.entry(uid).or_insert_with(|| (format!("{{{labels}}}"), Total::default()));
        sum.cpu_nanos += total.cpu_nanos;
        sum.memory_bytes += total.memory_bytes;
    }
    let pods: Vec<_> = pods.into_values().collect();
    let node = [(String::new(), sample.machine)];
    let mut text = String::new();
    for (series, rows) in [(CONTAINERS, &*containers), (NODE, &node), (PODS, &pods)] {
        for (name, kind, help, value) in series {
            let _ = writeln!(text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
            for (labels, total) in rows {
                let _ = writeln!(text, "{name}{labels} {} {at}", value(total));
            }
        }
    }
    text.push_str(
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise\n\
         # TYPE resource_scrape_error gauge\nresource_scrape_error 0\n",
    );
    text
}
