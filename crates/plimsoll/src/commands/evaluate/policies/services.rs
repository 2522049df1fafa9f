//! What would be decided about an AutoScalePolicy, among all policies of its service?

use api::plimsoll::AutoScalePolicy;
use control::Unreadable;
use control::autoscale_policy::observe::observe;
use control::metrics::Recorded;
use decide::rules::service::Verdict;
use serde_json::json;

use super::super::decision::Decision;
use super::super::world::{Object, World};

/// An AutoScalePolicy, read once for all that it is judged with.
pub(in super::super) struct ServicePolicy {
    /// Where it is among the objects.
    index: usize,
    policy: AutoScalePolicy,
}

impl ServicePolicy {
    fn all(world: &World) -> Result<Vec<Self>, Unreadable> {
        let policies =
            world.objects.iter().enumerate().filter(|(_, o)| o.kind == "AutoScalePolicy");
        policies.map(|(index, o)| Ok(Self { index, policy: o.read()? })).collect()
    }
}

/// Decides about an AutoScalePolicy; `None`, with a note on standard error, where the service's size is not known.
pub(in super::super) fn service(
    object: &Object,
    world: &World,
) -> Result<Option<Decision>, Unreadable> {
    let policy: AutoScalePolicy = object.read()?;
    let Some(count) = world.count.map(i64::from) else {
        eprintln!("{object}: only validated, since --count is not given");
        return Ok(None);
    };
    let Some(verdict) = judge(object, &policy, count, world)? else { return Ok(None) };
    let headline = if verdict.fires {
        format!("fires: {count} -> {}", verdict.to)
    } else {
        format!("does not fire: stays at {count}")
    };
    let mut decision = Decision::about(object)
        .with("target", json!({"kind": "Service", "name": policy.spec.service_id}))
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
    Ok(Some(decision))
}

/// Judges all policies of the service together, and returns the verdict on this one.
fn judge(
    object: &Object,
    policy: &AutoScalePolicy,
    count: i64,
    world: &World,
) -> Result<Option<Verdict>, Unreadable> {
    let namespace = object.namespace.as_deref().unwrap_or("default");
    let is_neighbour = |other: &&ServicePolicy| {
        world.objects[other.index].namespace == object.namespace
            && other.policy.spec.service_id == policy.spec.service_id
    };
    let all = world.service_policies.get_or_init(|| ServicePolicy::all(world));
    let all = all.as_ref().map_err(Clone::clone)?;
    let neighbours: Vec<&ServicePolicy> = all.iter().filter(is_neighbour).collect();
    let is_this = |other: &&ServicePolicy| std::ptr::eq(&world.objects[other.index], object);
    let Some(here) = neighbours.iter().position(is_this) else { return Ok(None) };
    let policies: Vec<&AutoScalePolicy> = neighbours.iter().map(|other| &other.policy).collect();
    let recorded = Recorded { world, namespace, now: world.now };
    let mut verdicts = observe(&policies, count, &recorded)?.decide(world.now);
    Ok((here < verdicts.len()).then(|| verdicts.swap_remove(here)))
}
