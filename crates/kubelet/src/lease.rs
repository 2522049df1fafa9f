//! Node Leases: a node lifecycle controller marks a node as not ready when its Lease is not renewed.

use std::sync::Arc;
use std::time::Duration;

use cluster::error::status_code;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Resource as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use process::Supervised;
use serde_json::json;

use crate::machine::Machine;
use crate::node;

/// The namespace of node Leases on every cluster.
const NAMESPACE: &str = "kube-node-lease";
/// How often a Lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long a Lease is valid, in seconds.
const DURATION_SECONDS: i32 = 40;

/// Starts to renew the Leases that the settings ask for.
pub(crate) fn start(machine: &Arc<Machine>) -> Option<Supervised> {
    let local = machine.local.iter().filter(|local| local.lease).map(|local| local.node.clone());
    let simulated = if machine.simulated.leases { machine.simulated.count } else { 0 };
    let nodes: Vec<String> = local.chain((1..=simulated).map(node::simulated_name)).collect();
    if nodes.is_empty() {
        return None;
    }
    let supervisor = &machine.context.supervisor;
    let machine = Arc::clone(machine);
    let renewing = move || renew_all(Arc::clone(&machine), nodes.clone());
    Some(supervisor.spawn("node leases", renewing))
}

/// Renews the Leases for as long as the kubelet runs. A Lease outlives a few failed renewals.
async fn renew_all(machine: Arc<Machine>, nodes: Vec<String>) {
    let mut due = tokio::time::interval(RENEW_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut has_failed = false;
    loop {
        due.tick().await;
        let renewing = nodes.iter().map(|node| renew(&machine, node));
        let renewed = futures::future::join_all(renewing).await;
        let failure = renewed.into_iter().find_map(Result::err);
        match &failure {
            Some(error) if !has_failed => {
                let error = cluster::explain(error);
                tracing::warn!(error, "could not renew a node lease; retrying in 10 s");
            }
            Some(_) | None => {}
        }
        has_failed = failure.is_some();
    }
}

async fn renew(machine: &Machine, node: &str) -> kube::Result<()> {
    let client = machine.context.client.clone();
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let now = MicroTime(machine.context.clock.now());
    let renewal = json!({
        "spec": {"holderIdentity": node, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now},
    });
    match leases.patch(node, &PatchParams::default(), &Patch::Merge(renewal)).await {
        Err(error) if status_code(&error) == Some(404) => {}
        renewed => return renewed.map(drop),
    }
    // It is garbage-collected with its node.
    let owner = Api::<Node>::all(client).get_opt(node).await?;
    let owner = owner.and_then(|node| node.owner_ref(&()));
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&PostParams::default(), &lease).await.map(drop)
}
