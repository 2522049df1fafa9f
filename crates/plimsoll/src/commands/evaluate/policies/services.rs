//! What would be decided about an AutoScalePolicy, among all policies of its service?

use api::plimsoll::auto_scale_policy::AutoScalePolicySpec;
use decide::rules::service::{self, Verdict};
use serde_json::json;

use super::super::decision::Decision;
use super::super::world::{Object, World};
use super::series::{self, Found};

/// Decides about an AutoScalePolicy; `None`, with a word on standard error, where the service's size is not known.
pub(in super::super) fn service(object: &Object, world: &World) -> Option<Decision> {
    let spec = read(object)?;
    let Some(count) = world.count.map(i64::from) else {
        eprintln!("{object}: only validated, since --count is not given");
        return None;
    };
    let verdict = judge(object, &spec, count, world)?;
    let headline = if verdict.fires {
        format!("fires: {count} -> {}", verdict.to)
    } else {
        format!("does not fire: stays at {count}")
    };
    let mut decision = Decision::about(object)
        .with("target", json!({"kind": "Service", "name": spec.service_id}))
        .with("from", count)
        .with("to", verdict.to)
        .with("fires", verdict.fires)
        .with("limited", verdict.limited)
        .line(headline)
        .because(&[verdict.why])
        .with("votes", Vec::<serde_json::Value>::new());
    if let Some(until) = verdict.quiet_until {
        decision = decision.with("quietUntil", until.to_string());
    }
    Some(decision)
}

/// Judges all policies of the service together, and gives the verdict on this one.
fn judge(
    object: &Object,
    spec: &AutoScalePolicySpec,
    count: i64,
    world: &World,
) -> Option<Verdict> {
    let namespace = object.namespace.as_deref().unwrap_or("default");
    let is_neighbour = |other: &&Object| {
        other.namespace == object.namespace
            && other.value["spec"]["serviceId"].as_str() == Some(spec.service_id.as_str())
    };
    let neighbours: Vec<&Object> = world.of("AutoScalePolicy").filter(is_neighbour).collect();
    let here = neighbours.iter().position(|other| std::ptr::eq(*other, object))?;
    let specs: Vec<AutoScalePolicySpec> = neighbours.iter().filter_map(|o| read(o)).collect();
    let found: Vec<Found> = specs.iter().map(|s| series::of_policy(s, namespace, world)).collect();
    let policies: Vec<_> = specs
        .iter()
        .zip(&found)
        .filter_map(|(spec, found)| Some((spec.decidable().ok()?, found.reading())))
        .collect();
    let mut verdicts = service::judge(&policies, count, world.now);
    (here < verdicts.len()).then(|| verdicts.swap_remove(here))
}

fn read(object: &Object) -> Option<AutoScalePolicySpec> {
    serde_json::from_value(object.value["spec"].clone()).ok()
}
