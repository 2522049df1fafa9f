//! A stand-in for a server of the protocol `externalgrpc`: one group, whose machines are Node objects that KWOK plays.

use connect::proto::core_v1;
use connect::proto::external_grpc::cloud_provider_server::{CloudProvider, CloudProviderServer};
use connect::proto::external_grpc::*;
use decide::nodes::Template;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// The group, and the most nodes that it has.
const GROUP: &str = "pool";
const MAX: i32 = 3;

/// A cloud whose nodes have the label of a test.
#[derive(Clone)]
pub(super) struct Cloud {
    client: Client,
    stage: String,
}

/// The server, for as long as it lives.
pub(super) struct Serving {
    pub(super) address: String,
    _task: tokio::task::JoinSet<()>,
}

impl Cloud {
    pub(super) async fn serve(client: Client, stage: &str) -> Serving {
        let service = CloudProviderServer::new(Self { client, stage: stage.to_owned() });
        let router = tonic::service::Routes::new(service).into_axum_router();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Serving { address, _task: task }
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn nodes(&self) -> Vec<Node> {
        let own = ListParams::default().labels(&format!("stage={}", self.stage));
        self.api().list(&own).await.unwrap().items
    }

    fn node(&self, name: &str) -> Value {
        let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "50"});
        json!({
            "metadata": {
                "name": name, "labels": {"stage": self.stage}, "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": {
                "providerID": format!("cloud://{name}"),
                "taints": [{"key": "stage", "value": self.stage, "effect": "NoSchedule"}],
            },
            "status": {"capacity": amounts, "allocatable": amounts},
        })
    }
}

fn id(node: &Node) -> String {
    node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default()
}

#[tonic::async_trait]
impl CloudProvider for Cloud {
    async fn node_groups(
        &self,
        _: Request<NodeGroupsRequest>,
    ) -> Result<Response<NodeGroupsResponse>, Status> {
        let (id, debug) = (GROUP.to_owned(), String::new());
        let node_groups = vec![NodeGroup { id, min_size: 0, max_size: MAX, debug }];
        Ok(Response::new(NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(
        &self,
        _: Request<NodeGroupForNodeRequest>,
    ) -> Result<Response<NodeGroupForNodeResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn pricing_node_price(
        &self,
        _: Request<PricingNodePriceRequest>,
    ) -> Result<Response<PricingNodePriceResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn pricing_pod_price(
        &self,
        _: Request<PricingPodPriceRequest>,
    ) -> Result<Response<PricingPodPriceResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn gpu_label(
        &self,
        _: Request<GpuLabelRequest>,
    ) -> Result<Response<GpuLabelResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn get_available_gpu_types(
        &self,
        _: Request<GetAvailableGpuTypesRequest>,
    ) -> Result<Response<GetAvailableGpuTypesResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn cleanup(
        &self,
        _: Request<CleanupRequest>,
    ) -> Result<Response<CleanupResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn refresh(
        &self,
        _: Request<RefreshRequest>,
    ) -> Result<Response<RefreshResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn node_group_target_size(
        &self,
        _: Request<NodeGroupTargetSizeRequest>,
    ) -> Result<Response<NodeGroupTargetSizeResponse>, Status> {
        let target_size = i32::try_from(self.nodes().await.len()).unwrap();
        Ok(Response::new(NodeGroupTargetSizeResponse { target_size }))
    }

    async fn node_group_increase_size(
        &self,
        request: Request<NodeGroupIncreaseSizeRequest>,
    ) -> Result<Response<NodeGroupIncreaseSizeResponse>, Status> {
        for _ in 0..request.into_inner().delta {
            let name = format!("{}-{}", self.stage, process::Random::system().below(0..1_000_000));
            let node = serde_json::from_value(self.node(&name)).unwrap();
            self.api().create(&PostParams::default(), &node).await.unwrap();
        }
        Ok(Response::new(Default::default()))
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<NodeGroupDeleteNodesRequest>,
    ) -> Result<Response<NodeGroupDeleteNodesResponse>, Status> {
        let asked = request.into_inner().nodes;
        for node in self.nodes().await {
            if asked.iter().any(|other| other.provider_id == id(&node)) {
                self.api().delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
            }
        }
        Ok(Response::new(Default::default()))
    }

    async fn node_group_decrease_target_size(
        &self,
        _: Request<NodeGroupDecreaseTargetSizeRequest>,
    ) -> Result<Response<NodeGroupDecreaseTargetSizeResponse>, Status> {
        Err(Status::unknown("attempt to delete existing nodes"))
    }

    async fn node_group_nodes(
        &self,
        _: Request<NodeGroupNodesRequest>,
    ) -> Result<Response<NodeGroupNodesResponse>, Status> {
        let running = instance_status::InstanceState::InstanceRunning;
        let status = InstanceStatus { instance_state: running.into(), error_info: None };
        let instance = |node: &Node| Instance { id: id(node), status: Some(status.clone()) };
        let instances = self.nodes().await.iter().map(instance).collect();
        Ok(Response::new(NodeGroupNodesResponse { instances }))
    }

    async fn node_group_template_node_info(
        &self,
        _: Request<NodeGroupTemplateNodeInfoRequest>,
    ) -> Result<Response<NodeGroupTemplateNodeInfoResponse>, Status> {
        let node = api::nodes::node(&serde_json::from_value(self.node("template")).unwrap(), None);
        let template = Template {
            labels: node.labels,
            taints: node.taints,
            capacity: node.capacity,
            allocatable: node.allocatable,
        };
        let node = core_v1::Node::example("template", &template);
        Ok(Response::new(NodeGroupTemplateNodeInfoResponse::new(&node)))
    }

    async fn node_group_get_options(
        &self,
        request: Request<NodeGroupAutoscalingOptionsRequest>,
    ) -> Result<Response<NodeGroupAutoscalingOptionsResponse>, Status> {
        let own = request.into_inner().defaults;
        Ok(Response::new(NodeGroupAutoscalingOptionsResponse {
            node_group_autoscaling_options: own,
        }))
    }
}
