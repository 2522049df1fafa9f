//! What becomes of marks and sizes when requests fail, are refused or overlap, and how many requests a snapshot takes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::ResourceExt as _;
use kube::client::Body;
use plimsoll_connect::Context;
use plimsoll_connect::providers::{InstanceState, NodeGroupProvider, ProviderError};
use serde_json::{Value, json};

use super::site::{MAX, Site, until, until_all};
use super::stand_in::{GROUP, Parts, Switches};

/// What happens to the next request that changes a size.
#[derive(Clone, Default)]
enum Next {
    #[default]
    Sent,
    Refused,
    /// The object changes first, in a way that does not concern its size.
    Overtaken(Parts),
    /// The size changes first.
    Resized(Parts),
    /// It is carried out, and no answer arrives.
    Lost,
}

/// A client between the provider and its cluster.
#[derive(Clone, Default)]
struct Between {
    next: Arc<Mutex<Next>>,
    requests: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Between {
    fn client(&self, client: Client) -> Client {
        let shared = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, shared) = (client.clone(), shared.clone());
            async move { shared.answer(client, request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, client: Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let path = request.uri().path().to_owned();
        *self.requests.lock().unwrap().entry(path.clone()).or_default() += 1;
        if request.method() != Method::PUT || !path.ends_with("/scale") {
            return client.send(request).await;
        }
        let next = std::mem::take(&mut *self.next.lock().unwrap());
        match next {
            Next::Sent => {}
            Next::Refused => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                                    "code": 403, "message": "machinedeployments/scale is forbidden"});
                let response = Response::builder().status(StatusCode::FORBIDDEN);
                return Ok(response.body(Body::from(status.to_string().into_bytes())).unwrap());
            }
            Next::Overtaken(parts) => {
                let change = json!({"metadata": {"annotations": {"touched": "yes"}}});
                parts.merge("MachineDeployment", "pool", change).await?;
            }
            Next::Resized(parts) => {
                let change = json!({"spec": {"replicas": 5}});
                parts.merge("MachineDeployment", "pool", change).await?;
            }
            Next::Lost => {
                client.send(request).await?;
                return Err(kube::Error::Service("connection reset".into()));
            }
        }
        client.send(request).await
    }

    fn set(&self, next: Next) {
        *self.next.lock().unwrap() = next;
    }
}

/// A provider with a client in between, for a group of two machines.
async fn between(site: &Site) -> (Between, Arc<dyn NodeGroupProvider>, String, Vec<String>) {
    let between = Between::default();
    let client = between.client(site.context.client.clone());
    let context = Context { client, ..site.context.clone() };
    let id = site.deployment("pool", 2, json!({})).await;
    let discover = json!({"discover": [{"namespace": site.parts.namespace}]});
    let provider = site.open_with(&context, discover);
    let machines = until_all(&provider, &id, 2, InstanceState::Running).await;
    (between, provider, id, machines.into_iter().map(|machine| machine.id).collect())
}

async fn replicas(site: &Site) -> Value {
    site.parts.api("MachineDeployment").get("pool").await.unwrap().data["spec"]["replicas"].clone()
}

#[tokio::test]
async fn a_machine_is_unmarked_when_the_size_cannot_be_lowered() {
    for site in super::sites().await {
        let (between, provider, id, machines) = between(&site).await;
        between.set(Next::Refused);
        let refused = provider.delete_nodes(&id, &machines[..1]).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("group `{id}`: machinedeployments/scale is forbidden")
        );
        assert_eq!(site.marked().await, Vec::<String>::new());
        assert_eq!(replicas(&site).await, 2);
        site.end().await;
    }
}

#[tokio::test]
async fn an_object_that_changes_meanwhile_is_read_again_and_a_newer_size_wins() {
    for site in super::sites().await {
        let (between, provider, id, machines) = between(&site).await;
        between.set(Next::Overtaken(site.parts.clone()));
        provider.increase(&id, 2).await.unwrap();
        assert_eq!(replicas(&site).await, 4);
        until_all(&provider, &id, 4, InstanceState::Running).await;

        between.set(Next::Resized(site.parts.clone()));
        let overtaken = provider.delete_nodes(&id, &machines[..1]).await.unwrap_err().to_string();
        let wanted = format!(
            "the provider is unavailable: the size of group `{id}` was changed from 4 to 5 meanwhile"
        );
        assert_eq!(overtaken, wanted);
        assert_eq!(replicas(&site).await, 5);
        assert_eq!(site.marked().await, Vec::<String>::new());
        site.end().await;
    }
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_may_or_may_not_have_been_made() {
    let site = Site::embedded("v1beta2").await;
    let (between, provider, id, machines) = between(&site).await;
    between.set(Next::Lost);
    let lost = provider.increase(&id, 1).await;
    assert!(matches!(lost, Err(ProviderError::Unknown { .. })), "{lost:?}");
    assert_eq!(replicas(&site).await, 3);
    until_all(&provider, &id, 3, InstanceState::Running).await;

    // The mark stays, so that no other machine goes.
    between.set(Next::Lost);
    let lost = provider.delete_nodes(&id, &machines[..1]).await;
    assert!(matches!(lost, Err(ProviderError::Unknown { .. })), "{lost:?}");
    let left = until_all(&provider, &id, 2, InstanceState::Running).await;
    assert!(left.iter().all(|machine| machine.id != machines[0]));
    site.end().await;
}

#[tokio::test]
async fn marks_that_a_crash_has_left_are_removed_and_those_of_others_are_respected() {
    for site in super::sites().await {
        let (_, provider, id, machines) = between(&site).await;
        let name = |id: &String| id.rsplit('/').next().unwrap().to_owned();
        let mark = async |machine: &String, value: Value| {
            let change =
                json!({"metadata": {"annotations": {format!("{GROUP}/delete-machine"): value}}});
            site.parts.merge("Machine", &name(machine), change).await.unwrap();
            provider.snapshot().await.unwrap();
        };
        mark(&machines[0], json!("2026-01-01 00:00:00 UTC")).await;
        let refused = provider.delete_nodes(&id, &machines[1..]).await.unwrap_err().to_string();
        assert!(refused.contains("it would be deleted in place of another one"), "{refused}");
        assert_eq!(site.marked().await, [name(&machines[0])]);

        mark(&machines[0], json!("plimsoll")).await;
        provider.delete_nodes(&id, &machines[1..]).await.unwrap();
        let left = until_all(&provider, &id, 1, InstanceState::Running).await;
        assert_eq!(left[0].id, machines[0]);
        assert_eq!(site.marked().await, Vec::<String>::new());

        // Nor does a machine go that is only to be cancelled.
        site.stand_in.switch(Switches { never_a_node: true, ..Switches::default() });
        provider.increase(&id, 1).await.unwrap();
        until(&provider, &id, |group| group.instances.len() == 2).await;
        mark(&machines[0], json!("plimsoll")).await;
        provider.decrease_target(&id, 1).await.unwrap();
        assert_eq!(until_all(&provider, &id, 1, InstanceState::Running).await, left);
        site.end().await;
    }
}

#[tokio::test]
async fn a_snapshot_lists_each_kind_once_however_many_groups_there_are() {
    let site = Site::embedded("v1beta2").await;
    site.infrastructure().await;
    let between = Between::default();
    let client = between.client(site.context.client.clone());
    let context = Context { client, ..site.context.clone() };
    for number in 0..90 {
        site.deployment(&format!("pool-{number}"), 0, json!({MAX: "3"})).await;
    }
    let provider = site.open_with(&context, json!({"discover": [{}]}));
    assert_eq!(provider.snapshot().await.unwrap().len(), 90);
    between.requests.lock().unwrap().clear();
    assert_eq!(provider.snapshot().await.unwrap().len(), 90);
    let requests = std::mem::take(&mut *between.requests.lock().unwrap());
    assert_eq!(requests.values().sum::<u32>(), 5, "{requests:?}");
    let names: Vec<String> =
        site.parts.list("MachineSet").await.unwrap().iter().map(|set| set.name_any()).collect();
    // 90 MachineSets of MachineDeployments are no groups of their own.
    assert!(names.len() <= 90);
    site.end().await;
}
