//! Groups, instances and errors as messages of the protocol.

use connect::proto::OptionDurations;
use connect::proto::core_v1::Node;
use connect::proto::external_grpc::instance_status::InstanceState as ProtoState;
use connect::proto::external_grpc::{
    ExternalGrpcNode, Instance, InstanceErrorInfo, InstanceStatus, NodeGroup,
    NodeGroupAutoscalingOptions,
};
use connect::providers::{Instance as ProviderInstance, InstanceState, ProviderError};
use decide::nodes::{GROUP_LABEL, GroupOptions};
use tonic::Status;

use super::groups::{Reading, ServedGroup};

/// The classes of an error because of which an instance cannot be created.
const OUT_OF_RESOURCES: i32 = 1;
const OTHER: i32 = 99;

pub(super) fn group(group: &ServedGroup) -> NodeGroup {
    let spec = &group.spec;
    let debug = format!("{} ({}, {} to {})", spec.name, group.provider_name, spec.min, spec.max);
    let (min_size, max_size) = (count(spec.min), count(spec.max));
    NodeGroup { id: spec.name.to_string(), min_size, max_size, debug }
}

pub(super) fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(super) fn instance(instance: &ProviderInstance) -> Instance {
    let state = match instance.state {
        InstanceState::Creating => ProtoState::InstanceCreating,
        InstanceState::Running => ProtoState::InstanceRunning,
        InstanceState::Deleting => ProtoState::InstanceDeleting,
    };
    let error_info = instance.error.as_ref().map(|error| InstanceErrorInfo {
        // Without a code, clients see no error.
        error_code: if error.is_out_of_resources { "OutOfResources" } else { "Failed" }.to_owned(),
        error_message: error.message.clone(),
        instance_error_class: if error.is_out_of_resources { OUT_OF_RESOURCES } else { OTHER },
    });
    let status = Some(InstanceStatus { instance_state: state.into(), error_info });
    Instance { id: instance.id.clone(), status }
}

/// Returns an example of a new node. Its annotation tells its group when its price is requested, because it has no id.
pub(super) fn example(group: &ServedGroup) -> Option<Node> {
    let mut node = Node::example(&format!("{}-template", group.spec.name), &group.template()?);
    let annotations = node.metadata.as_mut().map(|metadata| &mut metadata.annotations);
    let name = group.spec.name.to_string();
    annotations.into_iter().for_each(|all| drop(all.insert(GROUP_LABEL.to_owned(), name.clone())));
    Some(node)
}

/// Finds the group of a node whose price is requested.
pub(super) fn priced_group<'a>(
    reading: &'a Reading,
    node: &ExternalGrpcNode,
) -> Option<&'a ServedGroup> {
    let example = || reading.groups.get(node.annotations.get(GROUP_LABEL)?);
    reading.group_of(&node.provider_id).or_else(example)
}

/// Returns a group's own settings with the client's where it has none; `None`: it has none at all.
pub(super) fn options(
    group: &ServedGroup,
    defaults: NodeGroupAutoscalingOptions,
) -> Option<NodeGroupAutoscalingOptions> {
    let (own, is_all_or_nothing) = (group.options(), group.is_all_or_nothing());
    if own == GroupOptions::default() && !is_all_or_nothing {
        return None;
    }
    let default_durations = defaults.durations();
    let durations = OptionDurations {
        unneeded_for: own.unneeded_for.or(default_durations.unneeded_for),
        unready_for: own.unready_for.or(default_durations.unready_for),
        max_provision_time: own.max_provision_time.or(default_durations.max_provision_time),
    };
    let options = NodeGroupAutoscalingOptions {
        scale_down_utilization_threshold: own
            .utilization_threshold
            .unwrap_or(defaults.scale_down_utilization_threshold),
        scale_down_gpu_utilization_threshold: own
            .gpu_utilization_threshold
            .unwrap_or(defaults.scale_down_gpu_utilization_threshold),
        zero_or_max_node_scaling: is_all_or_nothing || defaults.zero_or_max_node_scaling,
        ignore_daemon_sets_utilization: own
            .ignore_daemon_sets_utilization
            .unwrap_or(defaults.ignore_daemon_sets_utilization),
        ..defaults
    };
    Some(options.with_durations(durations))
}

/// Returns the status for an error. Clients look at the message only, other than for Unimplemented, which is never returned for a change.
pub(super) fn status(error: &ProviderError) -> Status {
    let message = error.to_string();
    match error {
        ProviderError::UnknownGroup { .. } => Status::not_found(message),
        ProviderError::Refused { .. } => Status::failed_precondition(message),
        ProviderError::OutOfResources { .. } => Status::resource_exhausted(message),
        ProviderError::Unavailable { .. } => Status::unavailable(message),
        ProviderError::Unknown { .. } => Status::deadline_exceeded(message),
    }
}
