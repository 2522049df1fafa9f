//! What does the policy say? Webhooks and modules are asked only when the answer depends on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::agones::FleetStatus;
use api::autoscaling::{FleetAutoscaleRequest, FleetAutoscaler, Policy};
use decide::fleet::{Decision, Reason, Refusal, Reply, size};
use process::Random;

use super::Autoscalers;
use super::observe::Seen;

/// Decides, and asks whoever the decision turns out to need, until it needs nobody.
pub(super) async fn decide(
    autoscaler: &FleetAutoscaler,
    seen: &Seen,
    all: &Autoscalers,
) -> Decision {
    let policy = &autoscaler.spec.policy;
    let mut replies: BTreeMap<Arc<str>, Reply> = BTreeMap::new();
    loop {
        let now = all.cx.clock.now();
        let with = |id: &str| replies.get(id).cloned().unwrap_or(Reply::None);
        let Some(view) = policy.view_with(with) else { return unreadable(seen) };
        let decision = size(&view, seen.observation(), now);
        let Some(id) = missing(&decision).filter(|id| !replies.contains_key(id)) else {
            return decision;
        };
        let uid = autoscaler.metadata.uid.as_deref().unwrap_or_default();
        let asked = entry(policy, &id);
        let reply = all
            .ask
            .about(&format!("{uid}/{id}"), &asked, request(seen, &all.cx.settings.random))
            .await;
        replies.insert(id, reply);
    }
}

/// Finds the first one whose answer a decision went without: the id of an entry of a chain, or the empty one.
fn missing(decision: &Decision) -> Option<Arc<str>> {
    let skipped = decision.reasons.iter().find_map(|reason| {
        let Reason::Skipped { id, because } = reason else { return None };
        matches!(**because, Refusal::NoReply { .. }).then_some(id)
    });
    match (&decision.outcome, skipped) {
        (_, Some(id)) => Some(Arc::clone(id)),
        (Err(Refusal::NoReply { .. }), None) => Some("".into()),
        (Ok(_) | Err(_), None) => None,
    }
}

fn entry(policy: &Policy, id: &str) -> Policy {
    let entries = policy.chain.as_deref().unwrap_or_default();
    entries.iter().find(|e| e.id == id).map_or_else(|| policy.clone(), |entry| entry.policy())
}

fn request(seen: &Seen, random: &Random) -> FleetAutoscaleRequest {
    let meta = &seen.fleet.metadata;
    let allocations = seen.fleet.status.as_ref().map_or(0, |status| status.allocations);
    FleetAutoscaleRequest {
        uid: random.uuid().to_string(),
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        status: FleetStatus::of(&seen.view.status, allocations),
        labels: meta.labels.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
    }
}

/// No admitted policy lacks its block; one that came in by another door is as good as an empty chain.
fn unreadable(seen: &Seen) -> Decision {
    let outcome = Err(Refusal::EmptyChain);
    Decision { from: seen.view.replicas, outcome, reasons: Vec::new(), wake_at: None }
}
