//! Targets that do not answer: a policy waits for them within a limit, and says what it knows.

use api::plimsoll::scaling_policy::ActionOutcome;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::faults::controllers;
use super::{World, pass_through};
use crate::cluster::{Cluster, until};

/// Requests that have no answer for a while: those with a method, to a path that ends like this.
struct Silence {
    method: Method,
    path: &'static str,
    is_over: watch::Sender<bool>,
}

impl Silence {
    fn new(method: Method, path: &'static str) -> Self {
        Self { method, path, is_over: watch::Sender::new(false) }
    }

    /// Returns a client that meets it.
    fn on(&self, client: Client) -> Client {
        let (method, path, is_over) = (self.method.clone(), self.path, self.is_over.subscribe());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, mut is_over) = (client.clone(), is_over.clone());
            let is_met = request.method() == method && request.uri().path().ends_with(path);
            async move {
                if is_met {
                    drop(is_over.wait_for(|is_over| *is_over).await);
                }
                client.send(request).await
            }
        });
        Client::new(service, "default")
    }

    fn end(&self) {
        self.is_over.send_replace(true);
    }
}

/// Returns a world with a policy that wants four of a Deployment or a NodeGroup, and controllers that use a client.
async fn world_of(target: Value, client: impl FnOnce(Client) -> Client) -> (World, JoinSet<()>) {
    let world = World::on(Cluster::embedded().await, 2).await;
    world.node_group("pool", "0s").await;
    let running = controllers(&world.cluster, client(world.cluster.client.clone()));
    world.load.returns(4.0);
    let mut spec = pass_through();
    spec["target"] = target;
    world.policy("p", spec).await;
    (world, running)
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn node_group() -> Value {
    json!({"nodeGroup": {"name": "pool"}})
}

#[tokio::test(start_paused = true)]
async fn a_size_that_is_not_answered_is_unavailable_until_it_is() {
    for (target, path) in
        [(deployment(), "/deployments/web/scale"), (node_group(), "/nodegroups/pool")]
    {
        let silence = Silence::new(Method::GET, path);
        let (world, _running) = world_of(target, |client| silence.on(client)).await;
        let message = world.condition("p", ("AbleToScale", "False", "FailedGetScale")).await;
        assert!(message.contains("is unavailable: no answer within "), "{path}: {message}");
        silence.end();
        world.until_event("p", "SuccessfulRescale", "to 4").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scaling_that_is_not_answered_is_pending_until_the_size_is_read() {
    for (target, path) in
        [(deployment(), "/deployments/web/scale"), (node_group(), "/nodegroups/pool/status")]
    {
        let silence = Silence::new(Method::PATCH, path);
        let (world, _running) = world_of(target, |client| silence.on(client)).await;
        let message = world.condition("p", ("AbleToScale", "False", "FailedUpdateScale")).await;
        let wanted = "may or may not have been scaled: no answer within ";
        assert!(message.contains(wanted), "{path}: {message}");
        let outcome =
            async || world.status("p").await.last_action.and_then(|action| action.outcome);
        assert_eq!(outcome().await, Some(ActionOutcome::Pending), "{path}");
        silence.end();
        until("the action is applied", async || outcome().await == Some(ActionOutcome::Applied))
            .await;
    }
}
