//! Decides about an AutoScalePolicy together with all policies of its service.

use api::plimsoll::AutoScalePolicy;
use control::autoscale_policy::describe::describe;
use control::autoscale_policy::observe::observe;
use control::metrics::Recorded;
use control::{Description, Unreadable};
use decide::rules::service::Verdict;

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
) -> Result<Option<Description>, Unreadable> {
    let policy: AutoScalePolicy = object.read()?;
    let Some(count) = world.count.map(i64::from) else {
        eprintln!("{object}: only validated, since --count is not given");
        return Ok(None);
    };
    let Some(verdict) = judge(object, &policy, count, world)? else { return Ok(None) };
    Ok(Some(describe(&object.object_name(), &policy.spec.service_id, count, &verdict)))
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
    let mut observation = observe(&policies, count, &recorded)?;
    observation.shared_with.clone_from(&world.shared_with);
    let mut verdicts = observation.decide(world.now);
    Ok((here < verdicts.len()).then(|| verdicts.swap_remove(here)))
}
