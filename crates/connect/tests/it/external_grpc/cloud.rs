//! A stand-in for a server of Cluster Autoscaler's protocol `externalgrpc`, written from the protocol's description: groups in memory, and
//! a switch for each way to fail.
//!
//! The tests of several crates include this file, each with `proto` beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use futures::future::pending;
use tonic::{Request, Response, Status};

use super::proto::core_v1::Node;
use super::proto::external_grpc::cloud_provider_server::{CloudProvider, CloudProviderServer};
use super::proto::external_grpc::*;

/// The fields that a server knows: those of releases up to 1.33, from 1.35 on, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Old,
    New,
    Both,
}

/// What happens to the calls of a method.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// Nothing is done, and the answer is this.
    Refuse(Status),
    /// Nothing is done, and there is no answer.
    Hang,
    /// It is done, and there is no answer.
    DoAndHang,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct CloudGroup {
    pub(crate) max: i32,
    pub(crate) target: i32,
    pub(crate) instances: Vec<Instance>,
    /// `None`: the method is not implemented.
    pub(crate) template: Option<Node>,
    /// The group's own changes to the defaults that are sent; `None`: there are none.
    pub(crate) options: Option<fn(&mut NodeGroupAutoscalingOptions)>,
}

/// The state of the server.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) groups: BTreeMap<String, CloudGroup>,
    pub(crate) troubles: BTreeMap<&'static str, Trouble>,
    /// The methods that were called, in order.
    pub(crate) calls: Vec<&'static str>,
    /// The nodes whose deletion was requested.
    pub(crate) deleted: Vec<ExternalGrpcNode>,
    /// The defaults of the last request for options.
    pub(crate) defaults: NodeGroupAutoscalingOptions,
}

#[derive(Clone)]
pub(crate) struct Cloud {
    form: Form,
    state: Arc<Mutex<State>>,
}

impl Cloud {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, state: Arc::default() }
    }

    pub(crate) fn router(&self) -> Router {
        let service = CloudProviderServer::new(self.clone());
        tonic::service::Routes::new(service).into_axum_router()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sets what happens to the calls of a method, or nothing any more.
    pub(crate) fn trouble(&self, method: &'static str, trouble: impl Into<Option<Trouble>>) {
        let mut state = self.state();
        match trouble.into() {
            Some(trouble) => drop(state.troubles.insert(method, trouble)),
            None => drop(state.troubles.remove(method)),
        }
    }

    /// Returns how often a method was called.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.state().calls.iter().filter(|call| **call == method).count()
    }

    async fn answer<A>(
        &self,
        method: &'static str,
        work: impl FnOnce(&mut State) -> Result<A, Status>,
    ) -> Result<Response<A>, Status> {
        let trouble = {
            let mut state = self.state();
            state.calls.push(method);
            state.troubles.get(method).cloned()
        };
        match trouble {
            None => work(&mut self.state()).map(Response::new),
            Some(Trouble::Refuse(status)) => Err(status),
            Some(Trouble::Hang) => pending().await,
            Some(Trouble::DoAndHang) => {
                work(&mut self.state())?;
                pending().await
            }
        }
    }

    fn only_known(&self, mut options: NodeGroupAutoscalingOptions) -> NodeGroupAutoscalingOptions {
        if self.form == Form::Old {
            options.scale_down_unneeded_duration = None;
            options.scale_down_unready_duration = None;
            options.max_node_provision_duration = None;
        }
        if self.form == Form::New {
            options.scale_down_unneeded_time = None;
            options.scale_down_unready_time = None;
            options.max_node_provision_time = None;
        }
        options
    }
}

impl State {
    fn group(&mut self, id: &str) -> Result<&mut CloudGroup, Status> {
        // Go's servers return errors without a code of their own.
        self.groups.get_mut(id).ok_or_else(|| Status::unknown(format!("no group {id}")))
    }
}

/// Returns an instance in a state.
pub(crate) fn instance(id: &str, state: instance_status::InstanceState) -> Instance {
    let status = InstanceStatus { instance_state: state.into(), error_info: None };
    Instance { id: id.to_owned(), status: Some(status) }
}

#[tonic::async_trait]
impl CloudProvider for Cloud {
    async fn node_groups(
        &self,
        _: Request<NodeGroupsRequest>,
    ) -> Result<Response<NodeGroupsResponse>, Status> {
        let group = |(id, group): (&String, &CloudGroup)| NodeGroup {
            id: id.clone(),
            min_size: 0,
            max_size: group.max,
            debug: format!("{id} of a stand-in"),
        };
        let list = |state: &mut State| {
            Ok(NodeGroupsResponse { node_groups: state.groups.iter().map(group).collect() })
        };
        self.answer("NodeGroups", list).await
    }

    async fn node_group_for_node(
        &self,
        _: Request<NodeGroupForNodeRequest>,
    ) -> Result<Response<NodeGroupForNodeResponse>, Status> {
        self.answer("NodeGroupForNode", |_| Ok(NodeGroupForNodeResponse::default())).await
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
        self.answer("Refresh", |_| Ok(RefreshResponse {})).await
    }

    async fn node_group_target_size(
        &self,
        request: Request<NodeGroupTargetSizeRequest>,
    ) -> Result<Response<NodeGroupTargetSizeResponse>, Status> {
        let id = request.into_inner().id;
        let read = |state: &mut State| {
            Ok(NodeGroupTargetSizeResponse { target_size: state.group(&id)?.target })
        };
        self.answer("NodeGroupTargetSize", read).await
    }

    async fn node_group_increase_size(
        &self,
        request: Request<NodeGroupIncreaseSizeRequest>,
    ) -> Result<Response<NodeGroupIncreaseSizeResponse>, Status> {
        let NodeGroupIncreaseSizeRequest { delta, id } = request.into_inner();
        let increase = |state: &mut State| {
            let group = state.group(&id)?;
            if delta <= 0 || group.target + delta > group.max {
                return Err(Status::unknown("size increase is too large"));
            }
            group.target += delta;
            Ok(NodeGroupIncreaseSizeResponse {})
        };
        self.answer("NodeGroupIncreaseSize", increase).await
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<NodeGroupDeleteNodesRequest>,
    ) -> Result<Response<NodeGroupDeleteNodesResponse>, Status> {
        let NodeGroupDeleteNodesRequest { nodes, id } = request.into_inner();
        let delete = |state: &mut State| {
            let group = state.group(&id)?;
            let before = group.instances.len();
            group.instances.retain(|it| !nodes.iter().any(|node| node.provider_id == it.id));
            group.target -= i32::try_from(before - group.instances.len()).unwrap();
            state.deleted.extend(nodes);
            Ok(NodeGroupDeleteNodesResponse {})
        };
        self.answer("NodeGroupDeleteNodes", delete).await
    }

    async fn node_group_decrease_target_size(
        &self,
        request: Request<NodeGroupDecreaseTargetSizeRequest>,
    ) -> Result<Response<NodeGroupDecreaseTargetSizeResponse>, Status> {
        let NodeGroupDecreaseTargetSizeRequest { delta, id } = request.into_inner();
        let decrease = |state: &mut State| {
            let group = state.group(&id)?;
            if delta >= 0 || group.target + delta < i32::try_from(group.instances.len()).unwrap() {
                return Err(Status::unknown("attempt to delete existing nodes"));
            }
            group.target += delta;
            Ok(NodeGroupDecreaseTargetSizeResponse {})
        };
        self.answer("NodeGroupDecreaseTargetSize", decrease).await
    }

    async fn node_group_nodes(
        &self,
        request: Request<NodeGroupNodesRequest>,
    ) -> Result<Response<NodeGroupNodesResponse>, Status> {
        let id = request.into_inner().id;
        let list = |state: &mut State| {
            Ok(NodeGroupNodesResponse { instances: state.group(&id)?.instances.clone() })
        };
        self.answer("NodeGroupNodes", list).await
    }

    async fn node_group_template_node_info(
        &self,
        request: Request<NodeGroupTemplateNodeInfoRequest>,
    ) -> Result<Response<NodeGroupTemplateNodeInfoResponse>, Status> {
        let id = request.into_inner().id;
        let form = self.form;
        let read = |state: &mut State| {
            let template = state.group(&id)?.template.as_ref();
            let template = template.ok_or_else(|| Status::unimplemented("no template"))?;
            let mut answer = NodeGroupTemplateNodeInfoResponse::new(template);
            if form == Form::Old {
                answer.node_bytes.clear();
            }
            if form == Form::New {
                answer.node_info.clear();
            }
            Ok(answer)
        };
        self.answer("NodeGroupTemplateNodeInfo", read).await
    }

    async fn node_group_get_options(
        &self,
        request: Request<NodeGroupAutoscalingOptionsRequest>,
    ) -> Result<Response<NodeGroupAutoscalingOptionsResponse>, Status> {
        let NodeGroupAutoscalingOptionsRequest { id, defaults } = request.into_inner();
        let defaults = self.only_known(defaults.unwrap());
        let read = |state: &mut State| {
            state.defaults = defaults;
            let own = state.group(&id)?.options.map(|change| {
                let mut options = defaults;
                change(&mut options);
                self.only_known(options)
            });
            Ok(NodeGroupAutoscalingOptionsResponse { node_group_autoscaling_options: own })
        };
        self.answer("NodeGroupGetOptions", read).await
    }
}
