//! The methods of the protocol.

use std::sync::Arc;

use connect::proto::external_grpc::cloud_provider_server::CloudProvider;
use connect::proto::external_grpc::*;
use connect::providers::ProviderError;
use tonic::{Request, Response, Status};

use super::answers;
use super::groups::{NodeGroups, Reading, ServedGroup};

type Answer<T> = Result<Response<T>, Status>;

/// Answers about the groups of a cluster.
pub(super) struct Service {
    groups: NodeGroups,
}

impl Service {
    pub(super) fn new(groups: NodeGroups) -> Self {
        Self { groups }
    }

    async fn read(&self) -> Result<Arc<Reading>, Status> {
        self.groups.current().await.map_err(Status::unavailable)
    }

    /// Answers a question about a group.
    async fn about<T>(
        &self,
        id: &str,
        answer: impl FnOnce(&ServedGroup) -> Result<T, Status>,
    ) -> Answer<T> {
        let reading = self.read().await?;
        answer(find(&reading, id)?).map(Response::new)
    }

    /// Changes a group, and has it read again.
    async fn change<T: Default>(
        &self,
        id: &str,
        change: impl AsyncFnOnce(&Reading, &ServedGroup) -> Result<(), Status>,
    ) -> Answer<T> {
        let reading = self.read().await?;
        // Also when the client does not wait for the outcome.
        let _expiry = ExpireOnDrop(&self.groups);
        change(&reading, find(&reading, id)?).await?;
        Ok(Response::new(T::default()))
    }
}

struct ExpireOnDrop<'a>(&'a NodeGroups);

impl Drop for ExpireOnDrop<'_> {
    fn drop(&mut self) {
        self.0.expire();
    }
}

fn find<'a>(reading: &'a Reading, id: &str) -> Result<&'a ServedGroup, Status> {
    let missing = || Status::not_found(format!("there is no node group `{id}`"));
    reading.groups.get(id).ok_or_else(missing)
}

fn changed(outcome: Result<(), ProviderError>) -> Result<(), Status> {
    outcome.map_err(|error| answers::status(&error))
}

/// Reads the number of nodes in a request, which has a sign.
fn positive(delta: i32, given: i32) -> Result<u32, Status> {
    let problem = || Status::invalid_argument(format!("delta: {given} has the wrong sign"));
    u32::try_from(delta).ok().filter(|delta| *delta > 0).ok_or_else(problem)
}

#[tonic::async_trait]
impl CloudProvider for Service {
    async fn node_groups(&self, _: Request<NodeGroupsRequest>) -> Answer<NodeGroupsResponse> {
        let node_groups = self.read().await?.groups.values().map(answers::group).collect();
        Ok(Response::new(NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(
        &self,
        request: Request<NodeGroupForNodeRequest>,
    ) -> Answer<NodeGroupForNodeResponse> {
        let node = request.into_inner().node.unwrap_or_default();
        let reading = self.read().await?;
        let group = reading.group_of(&node.provider_id).map(answers::group);
        Ok(Response::new(NodeGroupForNodeResponse { node_group: Some(group.unwrap_or_default()) }))
    }

    async fn pricing_node_price(
        &self,
        request: Request<PricingNodePriceRequest>,
    ) -> Answer<PricingNodePriceResponse> {
        let request = request.into_inner();
        let incomplete = || Status::invalid_argument("expected a node, a start and an end");
        let (Some(node), Some(period)) = (&request.node, request.period()) else {
            return Err(incomplete());
        };
        let reading = self.read().await?;
        let group = answers::priced_group(&reading, node);
        let unpriced = || Status::unimplemented(format!("node `{}` has no price", node.name));
        let price = group.and_then(ServedGroup::price).ok_or_else(unpriced)?;
        let hours = period.end.duration_since(period.start).as_secs_f64() / 3600.0;
        Ok(Response::new(PricingNodePriceResponse { price: price * hours }))
    }

    async fn pricing_pod_price(
        &self,
        _: Request<PricingPodPriceRequest>,
    ) -> Answer<PricingPodPriceResponse> {
        Err(Status::unimplemented("pods have no prices"))
    }

    async fn gpu_label(&self, _: Request<GpuLabelRequest>) -> Answer<GpuLabelResponse> {
        // GPUs are known by the resources of a node, not by a label.
        Ok(Response::new(GpuLabelResponse::default()))
    }

    async fn get_available_gpu_types(
        &self,
        _: Request<GetAvailableGpuTypesRequest>,
    ) -> Answer<GetAvailableGpuTypesResponse> {
        Ok(Response::new(GetAvailableGpuTypesResponse::default()))
    }

    async fn cleanup(&self, _: Request<CleanupRequest>) -> Answer<CleanupResponse> {
        Ok(Response::new(CleanupResponse {}))
    }

    async fn refresh(&self, _: Request<RefreshRequest>) -> Answer<RefreshResponse> {
        self.groups.expire();
        self.read().await?;
        Ok(Response::new(RefreshResponse {}))
    }

    async fn node_group_target_size(
        &self,
        request: Request<NodeGroupTargetSizeRequest>,
    ) -> Answer<NodeGroupTargetSizeResponse> {
        let target = |group: &ServedGroup| {
            Ok(NodeGroupTargetSizeResponse { target_size: answers::count(group.state.target) })
        };
        self.about(&request.into_inner().id, target).await
    }

    async fn node_group_increase_size(
        &self,
        request: Request<NodeGroupIncreaseSizeRequest>,
    ) -> Answer<NodeGroupIncreaseSizeResponse> {
        let NodeGroupIncreaseSizeRequest { delta, id } = request.into_inner();
        let by = positive(delta, delta)?;
        self.change(&id, async |_: &Reading, group: &ServedGroup| {
            let (to, max) = (group.state.target.saturating_add(by), group.spec.max);
            if to > max {
                let problem = format!("{to} nodes are more than the maximum of {max}");
                return Err(Status::failed_precondition(problem));
            }
            changed(group.provider.increase(&group.state.id, by).await)
        })
        .await
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<NodeGroupDeleteNodesRequest>,
    ) -> Answer<NodeGroupDeleteNodesResponse> {
        let NodeGroupDeleteNodesRequest { nodes, id } = request.into_inner();
        let instances: Vec<String> = nodes.into_iter().map(|node| node.provider_id).collect();
        self.change(&id, async |reading: &Reading, group: &ServedGroup| {
            let is_foreign = |instance: &&String| {
                reading.group_of(instance).is_some_and(|other| other.spec.name != group.spec.name)
            };
            if let Some(foreign) = instances.iter().find(is_foreign) {
                let problem = format!("`{foreign}` is not an instance of node group `{id}`");
                return Err(Status::invalid_argument(problem));
            }
            changed(group.provider.delete_nodes(&group.state.id, &instances).await)
        })
        .await
    }

    async fn node_group_decrease_target_size(
        &self,
        request: Request<NodeGroupDecreaseTargetSizeRequest>,
    ) -> Answer<NodeGroupDecreaseTargetSizeResponse> {
        let NodeGroupDecreaseTargetSizeRequest { delta, id } = request.into_inner();
        let by = positive(delta.saturating_neg(), delta)?;
        self.change(&id, async |_: &Reading, group: &ServedGroup| {
            changed(group.provider.decrease_target(&group.state.id, by).await)
        })
        .await
    }

    async fn node_group_nodes(
        &self,
        request: Request<NodeGroupNodesRequest>,
    ) -> Answer<NodeGroupNodesResponse> {
        let list = |group: &ServedGroup| {
            let instances = group.state.instances.iter().map(answers::instance).collect();
            Ok(NodeGroupNodesResponse { instances })
        };
        self.about(&request.into_inner().id, list).await
    }

    async fn node_group_template_node_info(
        &self,
        request: Request<NodeGroupTemplateNodeInfoRequest>,
    ) -> Answer<NodeGroupTemplateNodeInfoResponse> {
        let template = |group: &ServedGroup| {
            let missing = || Status::unimplemented("the node group has no template");
            let node = answers::example(group).ok_or_else(missing)?;
            Ok(NodeGroupTemplateNodeInfoResponse::new(&node))
        };
        self.about(&request.into_inner().id, template).await
    }

    async fn node_group_get_options(
        &self,
        request: Request<NodeGroupAutoscalingOptionsRequest>,
    ) -> Answer<NodeGroupAutoscalingOptionsResponse> {
        let NodeGroupAutoscalingOptionsRequest { id, defaults } = request.into_inner();
        let options = |group: &ServedGroup| {
            let own = answers::options(group, defaults.unwrap_or_default());
            Ok(NodeGroupAutoscalingOptionsResponse { node_group_autoscaling_options: own })
        };
        self.about(&id, options).await
    }
}
