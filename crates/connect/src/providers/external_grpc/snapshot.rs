//! Reads all groups: their sizes and instances each time, and what seldom changes once a minute.
//!
//! A failure leaves no group out, because a missing group would count as deleted: the whole snapshot fails instead. Only templates may be
//! missing.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use decide::nodes::{GroupOptions, Template};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};

use super::super::{Group, Instance, InstanceError, InstanceState, ProviderError};
use super::{ExternalGrpc, Failure, RpcError};
use crate::proto::OptionDurations;
use crate::proto::core_v1::Node;
use crate::proto::external_grpc::instance_status::InstanceState as ProtoState;
use crate::proto::external_grpc::{
    self as messages, NodeGroup, NodeGroupAutoscalingOptions, NodeGroupAutoscalingOptionsRequest,
    NodeGroupNodesRequest, NodeGroupTargetSizeRequest, NodeGroupTemplateNodeInfoRequest,
    NodeGroupsRequest, RefreshRequest,
};

/// The number of groups that are read at a time.
const CONCURRENCY: usize = 8;
/// How long the template and the options of a group are used before they are read again.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(60);
/// The class of an error because of which another group should be tried.
const OUT_OF_RESOURCES: i32 = 1;

/// What seldom changes about a group.
#[derive(Clone, Default)]
pub(super) struct Details {
    /// When it was read; `None`: not completely.
    read_at: Option<Timestamp>,
    template: Option<Template>,
    options: GroupOptions,
    all_or_nothing: bool,
}

impl ExternalGrpc {
    /// Has the server read its cloud, and reads all groups.
    pub(super) async fn read_groups(&self) -> Result<Vec<Group>, ProviderError> {
        self.call("Refresh", RefreshRequest {}, async |mut server, request| {
            server.refresh(request).await
        })
        .await?;
        let groups = self.call("NodeGroups", NodeGroupsRequest {}, async |mut server, request| {
            server.node_groups(request).await
        });
        let groups = groups.await?.node_groups;
        self.with_details(|details| {
            details.retain(|id, _| groups.iter().any(|group| group.id == *id));
        });
        let reading = groups.into_iter().map(|group| self.read_group(group));
        futures::stream::iter(reading).buffered(CONCURRENCY).try_collect().await
    }

    async fn read_group(&self, group: NodeGroup) -> Result<Group, ProviderError> {
        let id = group.id;
        let (target, instances, details) = tokio::try_join!(
            self.read_target(&id),
            self.read_instances(&id),
            self.read_details(&id),
        )
        .map_err(|error| RpcError {
            message: format!("group `{id}`: {}", error.message),
            ..error
        })?;
        Ok(Group {
            id,
            min: count(group.min_size),
            max: count(group.max_size),
            target,
            instances,
            template: details.template,
            options: details.options,
            all_or_nothing: details.all_or_nothing,
            ..Group::default()
        })
    }

    async fn read_target(&self, id: &str) -> Result<u32, RpcError> {
        let request = NodeGroupTargetSizeRequest { id: id.to_owned() };
        let answer = self.call("NodeGroupTargetSize", request, async |mut server, request| {
            server.node_group_target_size(request).await
        });
        Ok(count(answer.await?.target_size))
    }

    async fn read_instances(&self, id: &str) -> Result<Vec<Instance>, RpcError> {
        let request = NodeGroupNodesRequest { id: id.to_owned() };
        let answer = self.call("NodeGroupNodes", request, async |mut server, request| {
            server.node_group_nodes(request).await
        });
        Ok(answer.await?.instances.into_iter().map(instance).collect())
    }

    /// Reads the template and the options of a group, or returns those that were read within the last minute.
    async fn read_details(&self, id: &str) -> Result<Details, RpcError> {
        let now = self.clock.now();
        let last = self.with_details(|details| details.get(id).cloned()).unwrap_or_default();
        if last.read_at.is_some_and(|at| now.duration_since(at) < KEEP_FOR) {
            return Ok(last);
        }
        let (template, options) = tokio::join!(self.read_template(id), self.read_options(id));
        let (read_at, template) = match template {
            Ok(template) => (Some(now), template),
            // Without a template, a group that has nodes can still be scaled.
            Err(error) => {
                tracing::debug!(group = id, error = error.message, "could not read the template");
                (None, last.template)
            }
        };
        let answer = options?;
        let (options, all_or_nothing) = (options_of(&answer), answer.zero_or_max_node_scaling);
        let details = Details { read_at, template, options, all_or_nothing };
        self.with_details(|all| all.insert(id.to_owned(), details.clone()));
        Ok(details)
    }

    fn with_details<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Details>) -> T) -> T {
        work(&mut self.details.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read_template(&self, id: &str) -> Result<Option<Template>, RpcError> {
        let request = NodeGroupTemplateNodeInfoRequest { id: id.to_owned() };
        let answer =
            self.call("NodeGroupTemplateNodeInfo", request, async |mut server, request| {
                server.node_group_template_node_info(request).await
            });
        let Some(answer) = if_implemented(answer.await)? else { return Ok(None) };
        let node = answer.node().map_err(|error| RpcError {
            failure: Failure::Refused,
            message: format!("{} answered with no Node: {error}", self.address),
        })?;
        Ok(node.map(Node::template))
    }

    async fn read_options(&self, id: &str) -> Result<NodeGroupAutoscalingOptions, RpcError> {
        let (defaults, id) = (Some(defaults()), id.to_owned());
        let request = NodeGroupAutoscalingOptionsRequest { id, defaults };
        let answer = self.call("NodeGroupGetOptions", request, async |mut server, request| {
            server.node_group_get_options(request).await
        });
        let answer = if_implemented(answer.await)?;
        Ok(answer.and_then(|answer| answer.node_group_autoscaling_options).unwrap_or_default())
    }
}

/// Returns no answer instead of an error if the server does not have an optional method.
fn if_implemented<A>(answer: Result<A, RpcError>) -> Result<Option<A>, RpcError> {
    match answer {
        Err(error) if error.failure == Failure::Unimplemented => Ok(None),
        answer => answer.map(Some),
    }
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn instance(instance: messages::Instance) -> Instance {
    let status = instance.status.unwrap_or_default();
    let state = match status.instance_state() {
        // An instance without a state exists, whatever else is known about it.
        ProtoState::Unspecified | ProtoState::InstanceRunning => InstanceState::Running,
        ProtoState::InstanceCreating => InstanceState::Creating,
        ProtoState::InstanceDeleting => InstanceState::Deleting,
    };
    let error = status
        .error_info
        .filter(|error| state == InstanceState::Creating && !error.error_code.is_empty());
    let error = error.map(|error| InstanceError {
        is_out_of_resources: error.instance_error_class == OUT_OF_RESOURCES,
        message: match error.error_message.as_str() {
            "" => error.error_code,
            message => format!("{}: {message}", error.error_code),
        },
    });
    Instance { id: instance.id, state, error }
}

/// Returns the defaults that a server fills in where a group has no setting of its own. They differ from the usual values by next to
/// nothing, so that a value that comes back is known to be the group's own unless it is exactly the one that was sent.
fn defaults() -> NodeGroupAutoscalingOptions {
    let threshold = 0.5_f64.next_up();
    let minutes = |minutes: i64| Some(SignedDuration::new(minutes * 60, 1));
    let options = NodeGroupAutoscalingOptions {
        scale_down_utilization_threshold: threshold,
        scale_down_gpu_utilization_threshold: threshold,
        ..NodeGroupAutoscalingOptions::default()
    };
    options.with_durations(OptionDurations {
        unneeded_for: minutes(10),
        unready_for: minutes(20),
        max_provision_time: minutes(15),
    })
}

/// Reads the settings that are a group's own.
fn options_of(answer: &NodeGroupAutoscalingOptions) -> GroupOptions {
    if *answer == NodeGroupAutoscalingOptions::default() {
        return GroupOptions::default();
    }
    let sent = defaults();
    let share = |share: f64, sent: f64| {
        Some(share).filter(|share| *share != sent && (0.0..=1.0).contains(share))
    };
    let (durations, unset) = (answer.durations(), sent.durations());
    let span = |span: Option<SignedDuration>, unset| {
        span.filter(|span| Some(*span) != unset && !span.is_negative())
    };
    GroupOptions {
        utilization_threshold: share(
            answer.scale_down_utilization_threshold,
            sent.scale_down_utilization_threshold,
        ),
        gpu_utilization_threshold: share(
            answer.scale_down_gpu_utilization_threshold,
            sent.scale_down_gpu_utilization_threshold,
        ),
        unneeded_for: span(durations.unneeded_for, unset.unneeded_for),
        unready_for: span(durations.unready_for, unset.unready_for),
        max_provision_time: span(durations.max_provision_time, unset.max_provision_time),
        ignore_daemon_sets_utilization: answer.ignore_daemon_sets_utilization.then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::external_grpc::{InstanceErrorInfo, InstanceStatus};

    #[test]
    fn an_error_counts_only_while_an_instance_is_being_created() {
        let read = |state: ProtoState, code: &str, class| {
            let error_info = Some(InstanceErrorInfo {
                error_code: code.to_owned(),
                error_message: "no machines".to_owned(),
                instance_error_class: class,
            });
            let status = InstanceStatus { instance_state: state.into(), error_info };
            let found = instance(messages::Instance { id: "i".to_owned(), status: Some(status) });
            (found.state, found.error.map(|error| (error.is_out_of_resources, error.message)))
        };
        let message = "STOCKOUT: no machines".to_owned();
        let (creating, running) = (InstanceState::Creating, InstanceState::Running);
        for (given, wanted) in [
            (
                (ProtoState::InstanceCreating, "STOCKOUT", 1),
                (creating, Some((true, message.clone()))),
            ),
            ((ProtoState::InstanceCreating, "STOCKOUT", 99), (creating, Some((false, message)))),
            ((ProtoState::InstanceCreating, "", 1), (creating, None)),
            ((ProtoState::InstanceRunning, "STOCKOUT", 1), (running, None)),
            ((ProtoState::Unspecified, "STOCKOUT", 1), (running, None)),
            ((ProtoState::InstanceDeleting, "STOCKOUT", 1), (InstanceState::Deleting, None)),
        ] {
            assert_eq!(read(given.0, given.1, given.2), wanted, "{given:?}");
        }
        let bare = messages::Instance { id: "i".to_owned(), status: None };
        assert_eq!(instance(bare).state, running);
    }

    #[test]
    fn only_what_differs_from_the_sent_defaults_is_a_groups_own() {
        let own = |change: fn(&mut NodeGroupAutoscalingOptions)| {
            let mut answer = defaults();
            change(&mut answer);
            options_of(&answer)
        };
        let none = GroupOptions::default;
        assert_eq!(own(|_| {}), none());
        assert_eq!(own(|answer| *answer = NodeGroupAutoscalingOptions::default()), none());
        let half = GroupOptions { utilization_threshold: Some(0.5), ..none() };
        assert_eq!(own(|answer| answer.scale_down_utilization_threshold = 0.5), half);
        assert_eq!(own(|answer| answer.scale_down_utilization_threshold = 7.0), none());
        let ignored = GroupOptions { ignore_daemon_sets_utilization: Some(true), ..none() };
        assert_eq!(own(|answer| answer.ignore_daemon_sets_utilization = true), ignored);
    }

    #[test]
    fn absent_durations_are_not_a_groups_own() {
        let answer = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.3,
            ..NodeGroupAutoscalingOptions::default()
        };
        let found = options_of(&answer);
        assert_eq!(found.utilization_threshold, Some(0.3));
        // Numbers have no absence: Cluster Autoscaler reads zero as well.
        assert_eq!(found.gpu_utilization_threshold, Some(0.0));
        assert_eq!(
            (found.unneeded_for, found.unready_for, found.max_provision_time),
            (None, None, None)
        );
    }
}
