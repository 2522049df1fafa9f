//! Requests the replies that a decision needs from webhooks and Wasm modules, one after the other.

use api::agones::{Fleet, FleetStatus};
use api::autoscaling::{FleetAutoscaleRequest, FleetAutoscaler, Policy, PolicyType};
use decide::fleet::{self, FleetDecision, Replies, Sizing};
use process::Random;

use super::Autoscalers;
use super::observe::AutoscalerObservation;

/// Decides the size, and requests each reply that the decision needs. The replies are stored in `replies`.
pub(super) async fn decide(
    autoscaler: &FleetAutoscaler,
    policy: &fleet::Policy,
    fleet: &Fleet,
    observed: &AutoscalerObservation,
    replies: &mut Replies,
    all: &Autoscalers,
) -> FleetDecision {
    let uid = autoscaler.metadata.uid.as_deref().unwrap_or_default();
    loop {
        let id = match observed.size(policy, replies, all.cx.clock.now()) {
            Sizing::Decided(decision) => return decision,
            Sizing::Ask(id) => id,
        };
        let asked = entry(&autoscaler.spec.policy, &id);
        let request = request(fleet, &observed.fleet.status, &all.cx.settings.random);
        let reply = all.ask.about(&format!("{uid}/{id}"), &asked, request).await;
        replies.insert(id, reply);
    }
}

/// Finds the entry of a chain by its id; outside of a chain the policy itself.
fn entry(policy: &Policy, id: &str) -> Policy {
    let is_chain = policy.type_ == PolicyType::Chain;
    let entries = policy.chain.as_deref().filter(|_| is_chain).unwrap_or_default();
    entries.iter().find(|e| e.id == id).map_or_else(|| policy.clone(), |entry| entry.policy())
}

fn request(fleet: &Fleet, status: &fleet::FleetStatus, random: &Random) -> FleetAutoscaleRequest {
    let meta = &fleet.metadata;
    let allocations = fleet.status.as_ref().map_or(0, |status| status.allocations);
    FleetAutoscaleRequest {
        uid: random.uuid().to_string(),
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        status: FleetStatus::from_sums(status, allocations),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
    }
}
