//! The usage of pods that are not there: from their annotation, or the simulation.

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::Pod;

use crate::machine::Machine;
use crate::usage::Usage;

/// The annotation with the usage of a simulated pod, such as `cpu=100m,memory=64Mi`.
pub const SIMULATED_USAGE: &str = "plimsoll.dev/simulated-usage";

/// Returns the usage of each container of a running pod: the first uses everything. `None`: the pod does not run.
pub(super) fn usage(machine: &Machine, pod: &Pod) -> Option<Vec<(String, Usage)>> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Running") {
        return None;
    }
    let annotations = pod.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(SIMULATED_USAGE)).map(|text| parse(text));
    let played = || machine.simulated.simulation.as_ref().and_then(|played| played.usage(pod));
    let mut usage = Some(annotated.or_else(played).unwrap_or_default());
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    Some(containers.map(|c| (c.name.clone(), usage.take().unwrap_or_default())).collect())
}

/// Reads the annotation. What cannot be read counts as 0.
fn parse(text: &str) -> Usage {
    let amount = |name: &str| {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        let mut named = pairs.filter(|(key, _)| key.trim() == name);
        Quantity::parse(named.next()?.1.trim()).ok()
    };
    let whole = |value: i64| u64::try_from(value).unwrap_or_default();
    Usage {
        cpu_nanos: amount("cpu")
            .map_or(0, |cpu| whole(cpu.milli_value()).saturating_mul(1_000_000)),
        memory_bytes: amount("memory").map_or(0, |memory| whole(memory.value())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_as_far_as_it_can_be() {
        for (text, cpu_nanos, memory_bytes) in [
            ("cpu=100m,memory=64Mi", 100_000_000, 64 << 20),
            ("memory = 1k", 0, 1000),
            ("cpu=x,memory=1", 0, 1),
            ("", 0, 0),
        ] {
            assert_eq!(parse(text), Usage { cpu_nanos, memory_bytes }, "{text:?}");
        }
    }
}
