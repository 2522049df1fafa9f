//! The expander `grpc` with a stand-in for a server of the protocol: it prefers one group, if it is asked about it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use connect::proto::grpc_expander::expander_server::{Expander, ExpanderServer};
use connect::proto::grpc_expander::{BestOptionsRequest, BestOptionsResponse, Option as Choice};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use super::replay::{replayed, without_messages};
use super::*;

#[derive(Clone)]
struct Prefers {
    group: &'static str,
    questions: Arc<AtomicUsize>,
    /// The groups of the last question.
    asked: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl Expander for Prefers {
    async fn best_options(
        &self,
        request: Request<BestOptionsRequest>,
    ) -> Result<Response<BestOptionsResponse>, Status> {
        self.questions.fetch_add(1, Ordering::SeqCst);
        let options = request.into_inner().options;
        let names = options.iter().map(|option| option.node_group_id.clone());
        *self.asked.lock().unwrap() = names.collect();
        let preferred = |option: &Choice| option.node_group_id == self.group;
        let options = options.into_iter().filter(preferred).collect();
        Ok(Response::new(BestOptionsResponse { options }))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_chooses_the_group_and_its_answer_is_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Prefers { group: "second", questions: Arc::default(), asked: Arc::default() };
    let routes = tonic::service::Routes::new(ExpanderServer::new(server.clone()));
    let mut world = World::idle(json!({
        "expanders": ["grpc"], "grpcExpander": {"address": address},
        "scaleDown": {"enabled": false},
    }))
    .await;
    world.tasks.spawn(async move {
        axum::serve(listener, routes.into_axum_router()).await.unwrap();
    });
    for name in ["first", "second", "third"] {
        world.group(name, json!({"max": 1}), json!({"startAfter": "0s"})).await;
    }
    world.tasks.spawn(control(world.client(), world.cluster.settings()));
    world.pod("a", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!(world.nodes("second").await.len(), 1);
    assert_eq!(*server.asked.lock().unwrap(), ["first", "second", "third"]);
    // What the server does not prefer is left to the next expander: here the name.
    world.pod("b", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 2).await;
    assert_eq!(world.nodes("first").await.len(), 1);
    let asked = server.questions.load(Ordering::SeqCst);
    world.pod("c", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 3).await;
    assert_eq!(server.questions.load(Ordering::SeqCst), asked, "one group needs no question");
    let decisions: Api<Decision> = Api::all(world.client());
    let is_growth = |decision: &Decision| decision.spec.decision["scaleUp"] != json!([]);
    until("the choices are recorded", async || {
        let all = decisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().filter(|decision| is_growth(decision)).count() == 3
    })
    .await;
    for decision in decisions.list(&ListParams::default()).await.unwrap().items {
        let recorded = without_messages(json!(decision.spec.decision));
        assert_eq!(without_messages(replayed(&decision)), recorded);
    }
}
