//! What would be decided about an AutoScalePolicy, among all policies of its service?

use api::plimsoll::auto_scale_policy::AutoScalePolicySpec;
use decide::rules::service::{self, Verdict};
use serde_json::json;

use super::super::decision::Decision;
use super::super::world::{Object, World};
use super::series::{self, Found};

/// An AutoScalePolicy, read once for all that it is judged with.
pub(in super::super) struct ServicePolicy {
    /// Where it is among the objects.
    index: usize,
    spec: AutoScalePolicySpec,
}

impl ServicePolicy {
    fn all(world: &World) -> Vec<Self> {
        let policies =
            world.objects.iter().enumerate().filter(|(_, o)| o.kind == "AutoScalePolicy");
        policies.filter_map(|(index, o)| Some(Self { index, spec: o.spec()? })).collect()
    }
}

/// Decides about an AutoScalePolicy; `None`, with a word on standard error, where the service's size is not known.
pub(in super::super) fn service(object: &Object, world: &World) -> Option<Decision> {
    let spec: AutoScalePolicySpec = object.spec()?;
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
    let is_neighbour = |other: &&ServicePolicy| {
        world.objects[other.index].namespace == object.namespace
            && other.spec.service_id == spec.service_id
    };
    let all = world.service_policies.get_or_init(|| ServicePolicy::all(world));
    let neighbours: Vec<&ServicePolicy> = all.iter().filter(is_neighbour).collect();
    let is_this = |other: &&ServicePolicy| std::ptr::eq(&world.objects[other.index], object);
    let here = neighbours.iter().position(is_this)?;
    let specs = neighbours.iter().map(|other| &other.spec);
    let found: Vec<Found> = specs.clone().map(|s| series::of_policy(s, namespace, world)).collect();
    let policies: Vec<_> = specs
        .zip(&found)
        .filter_map(|(spec, found)| Some((spec.decidable().ok()?, found.reading())))
        .collect();
    let mut verdicts = service::judge(&policies, count, world.now);
    (here < verdicts.len()).then(|| verdicts.swap_remove(here))
}
