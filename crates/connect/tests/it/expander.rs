//! The client of expanders on a stand-in for their servers, over real sockets.

use std::future::pending;
use std::sync::{Arc, Mutex};

use axum::Router;
use decide::nodes::Template;
use plimsoll_connect::expander::{ExpanderOption, GrpcExpander};
use plimsoll_connect::proto::core_v1::{Node, Pod};
use plimsoll_connect::proto::grpc_expander::expander_server::{Expander, ExpanderServer};
use plimsoll_connect::proto::grpc_expander::{BestOptionsRequest, BestOptionsResponse, Option};
use prost::Message as _;
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::engine;
use crate::server::Server;

/// A stand-in for an expander, written from the protocol's description: it answers with these groups, not at all, or refuses.
#[derive(Clone)]
enum Choice {
    Groups(&'static [&'static str]),
    Hang,
    Refuse,
}

#[derive(Clone)]
struct StandIn {
    choice: Choice,
    requests: Arc<Mutex<Vec<BestOptionsRequest>>>,
}

#[tonic::async_trait]
impl Expander for StandIn {
    async fn best_options(
        &self,
        request: Request<BestOptionsRequest>,
    ) -> Result<Response<BestOptionsResponse>, Status> {
        self.requests.lock().unwrap().push(request.into_inner());
        let option =
            |group: &&str| Option { node_group_id: (*group).to_owned(), ..Option::default() };
        match self.choice {
            Choice::Groups(groups) => {
                let options = groups.iter().map(option).collect();
                Ok(Response::new(BestOptionsResponse { options }))
            }
            Choice::Hang => pending().await,
            Choice::Refuse => Err(Status::internal("out of ideas")),
        }
    }
}

fn options() -> Vec<ExpanderOption> {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "games"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
    });
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
    let option = |group: &str, node_count| ExpanderOption {
        group: group.to_owned(),
        node_count,
        debug: format!("{group}: {node_count} nodes"),
        template: Template {
            capacity: [("cpu", 1500)].into_iter().collect(),
            ..Template::default()
        },
        pods: vec![pod.clone()],
    };
    vec![option("a", 1), option("b", 2), option("c", 3)]
}

#[tokio::test]
async fn the_expander_orders_the_groups_and_a_failure_leaves_the_choice_to_the_next_one() {
    let (_engine, context) = engine().await;
    let all: &[&str] = &["a", "b", "c"];
    for (choice, wanted) in [
        (Choice::Groups(&["c", "a"]), ["c", "a"].as_slice()),
        (Choice::Groups(&["c", "unknown", "c"]), &["c"]),
        (Choice::Groups(&[]), all),
        (Choice::Groups(&["unknown"]), all),
        (Choice::Refuse, all),
        (Choice::Hang, all),
    ] {
        let stand_in = StandIn { choice, requests: Arc::default() };
        let router: Router =
            tonic::service::Routes::new(ExpanderServer::new(stand_in.clone())).into_axum_router();
        let server = Server::plain(router).await;
        let address = server.url.strip_prefix("http://").unwrap();
        let settings = json!({"address": address, "timeout": "2s"});
        let expander = GrpcExpander::open(&context, &settings).unwrap();
        assert_eq!(expander.best_options(&options()).await, wanted);

        let request = stand_in.requests.lock().unwrap().pop().unwrap();
        let second = &request.options[1];
        assert_eq!((&*second.node_group_id, second.node_count), ("b", 2));
        // Releases up to 1.33 read the one, later ones the other.
        assert_eq!(second.pod, second.pod_bytes);
        assert_eq!(request.node_map, request.node_bytes_map);
        let pod = Pod::decode(second.pod_bytes[0].as_slice()).unwrap();
        assert_eq!(pod.metadata.unwrap().namespace, "games");
        let requests = pod.spec.unwrap().containers[0].resources.clone().unwrap().requests;
        assert_eq!(requests["cpu"].string, "500m");
        let node = Node::decode(request.node_bytes_map["b"].as_slice()).unwrap();
        assert_eq!(node.status.unwrap().capacity["cpu"].string, "1500m");
    }
    let unreachable = GrpcExpander::open(&context, &json!({"address": "127.0.0.1:1"})).unwrap();
    assert_eq!(unreachable.best_options(&options()).await, all);
}
