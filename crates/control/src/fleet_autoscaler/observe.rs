//! Observes what an autoscaler decides by: its policy, its fleet and the fleet's game servers.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use api::{Problem, duration};
use cluster::Key;
use decide::fleet::{self, Autoscaler, FleetDecision, Refusal, Replies, Sizing};
use decide::gameserver::{GameServer, Occupancy};
use jiff::{SignedDuration, Timestamp};

use super::{Autoscalers, STABILIZATION_ANNOTATION};
use crate::lister::sentence;

/// The spec of an autoscaler, parsed.
pub struct AutoscalerSpec {
    /// How its fleet is sized.
    pub policy: fleet::Policy,
    /// How long the fleet waits before it shrinks.
    pub stabilization: Option<SignedDuration>,
}

/// Parses the spec of an autoscaler, or returns every field that cannot be read.
pub fn parse(autoscaler: &FleetAutoscaler) -> Result<AutoscalerSpec, Vec<Problem>> {
    match (autoscaler.spec.policy.parse(), stabilization(autoscaler)) {
        (Ok(policy), Ok(stabilization)) => Ok(AutoscalerSpec { policy, stabilization }),
        (policy, stabilization) => {
            let problems = policy.err().unwrap_or_default();
            Err(problems.into_iter().chain(stabilization.err()).collect())
        }
    }
}

fn stabilization(autoscaler: &FleetAutoscaler) -> Result<Option<SignedDuration>, Problem> {
    let annotations = autoscaler.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|a| a.get(STABILIZATION_ANNOTATION)) else {
        return Ok(None);
    };
    let path = format!("metadata.annotations[{STABILIZATION_ANNOTATION}]");
    let window = duration::parse(text).map_err(|message| Problem::new(path, message))?;
    Ok(Some(window).filter(SignedDuration::is_positive))
}

/// Returns the decision about a fleet of `from` servers whose autoscaler cannot be read: it is left as it is.
pub fn unreadable(from: i32, problems: &[Problem]) -> FleetDecision {
    let outcome = Err(Refusal::Unreadable { why: sentence(problems).into() });
    FleetDecision { from, outcome, reasons: Vec::new(), wake_at: None }
}

/// A fleet as it was observed.
pub struct AutoscalerObservation {
    /// The fleet.
    pub fleet: fleet::Fleet,
    /// Its game servers.
    pub servers: Vec<GameServer>,
    /// How busy the nodes are.
    pub nodes: Arc<Occupancy>,
    /// The autoscaler that scales the fleet, where it is another one.
    pub other_owner: Option<Arc<str>>,
}

impl AutoscalerObservation {
    /// Decides the size of the fleet, or names the reply that is needed first.
    pub fn size(&self, policy: &fleet::Policy, replies: &Replies, now: Timestamp) -> Sizing {
        let observed = fleet::FleetObservation {
            fleet: &self.fleet,
            servers: &self.servers,
            nodes: &self.nodes,
            other_owner: self.other_owner.as_ref(),
        };
        fleet::size(policy, observed, replies, now)
    }
}

/// Returns the autoscaler that scales a fleet, among all that name it; `None` where it is the one called `name`.
pub fn other_owner(name: &str, autoscalers: &[Autoscaler]) -> Option<Arc<str>> {
    let owner = Autoscaler::owner(autoscalers).map(|owner| Arc::clone(&owner.name));
    owner.filter(|owner| **owner != *name)
}

/// Observes a fleet; single game servers only where the policy reads them. They are counted here, because the fleet's status is
/// two writes behind.
pub(super) fn observe(
    autoscaler: &FleetAutoscaler,
    fleet: &Fleet,
    reads_servers: bool,
    all: &Autoscalers,
) -> AutoscalerObservation {
    let caches = &all.cx.caches;
    let uid = fleet.metadata.uid.as_deref().unwrap_or_default();
    let sets = caches.sets.owned(uid, |set| set.metadata.uid.clone().unwrap_or_default());
    let servers: Vec<Arc<GameServer>> =
        sets.iter().flat_map(|uid| caches.servers.owned(uid, |s| Arc::clone(&s.view))).collect();
    let mut view = fleet.view();
    view.status = fleet::merge([&fleet::status(&view.template, &servers)]);
    let (servers, nodes) = if reads_servers {
        let servers = servers.iter().map(|server| GameServer::clone(server)).collect();
        (servers, Arc::new(all.cx.nodes.occupancy().clone()))
    } else {
        (Vec::new(), Arc::default())
    };
    let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
    let named = all.watchers.autoscalers_of(&target(autoscaler));
    let named: Vec<Autoscaler> =
        named.iter().filter_map(|key| Some(all.cx.caches.autoscalers.get(key)?.view())).collect();
    AutoscalerObservation { fleet: view, servers, nodes, other_owner: other_owner(name, &named) }
}

/// Returns the key of an autoscaler's fleet.
pub(super) fn target(autoscaler: &FleetAutoscaler) -> Key {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    Key::new(namespace, autoscaler.spec.fleet_name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_stored_before_it_was_checked_is_held_with_the_fields_that_cannot_be_read() {
        let autoscaler: FleetAutoscaler = serde_json::from_value(json!({
            "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
            "metadata": {"name": "a", "annotations": {STABILIZATION_ANNOTATION: "a while"}},
            "spec": {"fleetName": "f", "policy": {"type": "Schedule", "schedule": {
                "activePeriod": {"startCron": "at eight", "timezone": "Mars/Base"},
                "policy": {"type": "Buffer", "buffer": {"bufferSize": 1, "maxReplicas": 9}},
            }}},
        }))
        .unwrap();
        let Err(problems) = parse(&autoscaler) else { panic!("it cannot be read") };
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let period = "spec.policy.schedule.activePeriod";
        let annotation = format!("metadata.annotations[{STABILIZATION_ANNOTATION}]");
        assert_eq!(
            paths,
            [&format!("{period}.timezone"), &format!("{period}.startCron"), &annotation]
        );
        let decision = unreadable(7, &problems);
        assert_eq!(decision.from, 7);
        assert!(matches!(decision.outcome, Err(Refusal::Unreadable { .. })));
    }
}
