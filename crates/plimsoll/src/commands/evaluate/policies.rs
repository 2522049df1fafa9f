//! Decides about ScalingPolicies and AutoScalePolicies from files.

mod services;

use api::plimsoll::ScalingPolicy;
use control::metrics::Recorded;
use control::scaling_policy::describe::describe;
use control::scaling_policy::observe::{Answers, observe};
use control::scaling_policy::target;
use control::{Description, Unreadable};
use serde_json::json;

use super::world::{Object, World};
pub(super) use services::{ServicePolicy, service};

/// Decides about a ScalingPolicy; `None`, with a note on standard error, where the size of its target is not known.
pub(super) fn scaling(object: &Object, world: &World) -> Result<Option<Description>, Unreadable> {
    // A disabled block of a Nomad file is not even checked, so this is asked before anything is read.
    if object.value()["spec"]["enabled"] == json!(false) {
        return Ok(Some(
            Description::about(&object.object_name()).with("disabled", true).line("not enabled"),
        ));
    }
    let policy: ScalingPolicy = object.read()?;
    for warning in policy.spec.warnings() {
        eprintln!("{object}: warning: {warning}");
    }
    let namespace = object.namespace.as_deref().unwrap_or("default");
    let size = target::size(&policy.spec.target, namespace, world)?;
    let Some(count) = size.or(world.count.map(i64::from)) else {
        eprintln!("{object}: only validated, since neither its target nor --count is given");
        return Ok(None);
    };
    let recorded = Recorded { world, namespace, now: world.now };
    let answers = Answers::recorded(&policy.spec, &recorded)?;
    let mut observation = observe(&policy, count, answers)?;
    observation.shared_with.clone_from(&world.shared_with);
    let decided = observation.decide(world.now);
    let target = target::reference(&policy.spec.target, namespace);
    Ok(Some(describe(&object.object_name(), &policy.spec, &decided, target)))
}
