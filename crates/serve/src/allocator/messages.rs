//! Conversions between the messages of the allocation service and the API's types.

use std::collections::BTreeMap;

use api::agones::{Order, Priority, PriorityType, Scheduling};
use api::allocation::{
    CounterAction, CounterSelector, GameServerAllocation, GameServerAllocationSpec,
    GameServerAllocationStatus, GameServerMetadata, GameServerSelector, ListAction, ListSelector,
    MetaPatch, MultiClusterSetting, SelectedState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::AllocationError;
use crate::proto::allocation as proto;
use proto::allocation_request::SchedulingStrategy;
use proto::allocation_response as response;
use proto::game_server_selector::GameServerState;
use proto::label_match_expressions::Operator;

/// Converts a request into an allocation, validates it, and applies defaults.
pub(super) fn allocation(
    request: proto::AllocationRequest,
) -> Result<GameServerAllocation, AllocationError> {
    let namespace = match request.namespace {
        none if none.is_empty() => "default".to_owned(),
        namespace => namespace,
    };
    let setting = request.multi_cluster_setting.unwrap_or_default();
    let policies = setting.policy_selector.unwrap_or_default().match_labels;
    let metadata = request.metadata.or(request.meta_patch).unwrap_or_default();
    let spec = GameServerAllocationSpec {
        multi_cluster_setting: MultiClusterSetting {
            enabled: setting.enabled,
            policy_selector: LabelSelector {
                match_labels: (!policies.is_empty()).then_some(policies),
                match_expressions: None,
            },
        },
        required: request.required_game_server_selector.map(selector).unwrap_or_default(),
        preferred: request.preferred_game_server_selectors.into_iter().map(selector).collect(),
        selectors: request.game_server_selectors.into_iter().map(selector).collect(),
        priorities: request.priorities.into_iter().map(priority).collect(),
        scheduling: match SchedulingStrategy::try_from(request.scheduling) {
            Ok(SchedulingStrategy::Distributed) => Scheduling::Distributed,
            Ok(SchedulingStrategy::Packed) | Err(_) => Scheduling::Packed,
        },
        metadata: MetaPatch { labels: metadata.labels, annotations: metadata.annotations },
        counters: map_values(request.counters, |a| CounterAction {
            action: a.action,
            amount: a.amount,
            capacity: a.capacity,
        }),
        lists: map_values(request.lists, |a| ListAction {
            add_values: Some(a.add_values),
            delete_values: Some(a.delete_values),
            capacity: a.capacity,
        }),
    };
    let mut allocation = GameServerAllocation::new("", spec);
    allocation.metadata.name = None;
    allocation.metadata.namespace = Some(namespace);
    allocation.settled().map_err(AllocationError::Invalid)
}

fn selector(selector: proto::GameServerSelector) -> GameServerSelector {
    GameServerSelector {
        match_labels: selector.match_labels,
        match_expressions: selector.match_expressions.into_iter().map(expression).collect(),
        game_server_state: Some(match GameServerState::try_from(selector.game_server_state) {
            Ok(GameServerState::Allocated) => SelectedState::Allocated,
            Ok(GameServerState::Ready) | Err(_) => SelectedState::Ready,
        }),
        counters: map_values(selector.counters, |c| CounterSelector {
            min_count: c.min_count,
            max_count: c.max_count,
            min_available: c.min_available,
            max_available: c.max_available,
        }),
        lists: map_values(selector.lists, |l| ListSelector {
            contains_value: l.contains_value,
            min_available: l.min_available,
            max_available: l.max_available,
        }),
    }
}

fn expression(expression: proto::LabelMatchExpressions) -> LabelSelectorRequirement {
    let operator = Operator::try_from(expression.operator).unwrap_or(Operator::In);
    LabelSelectorRequirement {
        key: expression.key,
        operator: operator.as_str_name().to_owned(),
        values: (!expression.values.is_empty()).then_some(expression.values),
    }
}

fn priority(priority: proto::Priority) -> Priority {
    use proto::priority::{Order as ProtoOrder, Type};
    Priority {
        type_: match Type::try_from(priority.r#type) {
            Ok(Type::List) => PriorityType::List,
            Ok(Type::Counter) | Err(_) => PriorityType::Counter,
        },
        key: priority.key,
        order: Some(match ProtoOrder::try_from(priority.order) {
            Ok(ProtoOrder::Descending) => Order::Descending,
            Ok(ProtoOrder::Ascending) | Err(_) => Order::Ascending,
        }),
    }
}

/// Returns the response for an allocated server.
pub(super) fn response(status: GameServerAllocationStatus) -> proto::AllocationResponse {
    let metadata = status
        .metadata
        .map(|m| response::GameServerMetadata { labels: m.labels, annotations: m.annotations });
    proto::AllocationResponse {
        game_server_name: status.game_server_name,
        ports: status
            .ports
            .into_iter()
            .map(|p| response::GameServerStatusPort { name: p.name, port: p.port })
            .collect(),
        address: status.address,
        addresses: status
            .addresses
            .into_iter()
            .map(|a| response::GameServerStatusAddress { r#type: a.type_, address: a.address })
            .collect(),
        node_name: status.node_name,
        source: status.source,
        metadata,
        counters: map_values(status.counters.unwrap_or_default(), |c| response::CounterStatus {
            count: Some(c.count),
            capacity: Some(c.capacity),
        }),
        lists: map_values(status.lists.unwrap_or_default(), |l| response::ListStatus {
            values: l.values,
            capacity: Some(l.capacity),
        }),
    }
}

/// Converts the response of another cluster. `source` is its endpoint.
pub(super) fn status(
    response: proto::AllocationResponse,
    source: &str,
) -> GameServerAllocationStatus {
    use api::agones::{CounterStatus, ListStatus, NodeAddress, StatusPort};
    GameServerAllocationStatus {
        state: api::allocation::AllocationState::Allocated,
        game_server_name: response.game_server_name,
        ports: response
            .ports
            .into_iter()
            .map(|p| StatusPort { name: p.name, port: p.port })
            .collect(),
        address: response.address,
        addresses: response
            .addresses
            .into_iter()
            .map(|a| NodeAddress { type_: a.r#type, address: a.address })
            .collect(),
        node_name: response.node_name,
        source: source.to_owned(),
        metadata: response
            .metadata
            .map(|m| GameServerMetadata { labels: m.labels, annotations: m.annotations }),
        counters: Some(map_values(response.counters, |c| CounterStatus {
            count: c.count.unwrap_or_default(),
            capacity: c.capacity.unwrap_or_default(),
        })),
        lists: Some(map_values(response.lists, |l| ListStatus {
            capacity: l.capacity.unwrap_or_default(),
            values: l.values,
        })),
    }
}

/// Returns the request that forwards an allocation to another cluster: for that cluster alone, in its namespace.
pub(super) fn forwarded(
    allocation: &GameServerAllocation,
    namespace: &str,
) -> proto::AllocationRequest {
    let spec = &allocation.spec;
    let metadata = proto::MetaPatch {
        labels: spec.metadata.labels.clone(),
        annotations: spec.metadata.annotations.clone(),
    };
    proto::AllocationRequest {
        namespace: namespace.to_owned(),
        multi_cluster_setting: None,
        // For allocators that know only the older fields.
        required_game_server_selector: Some(selector_message(&spec.required)),
        preferred_game_server_selectors: spec.preferred.iter().map(selector_message).collect(),
        meta_patch: Some(metadata.clone()),
        metadata: Some(metadata),
        game_server_selectors: spec.selectors.iter().map(selector_message).collect(),
        scheduling: match spec.scheduling {
            Scheduling::Packed => SchedulingStrategy::Packed.into(),
            Scheduling::Distributed => SchedulingStrategy::Distributed.into(),
        },
        priorities: spec.priorities.iter().map(priority_message).collect(),
        counters: map_values(spec.counters.clone(), |a| proto::CounterAction {
            action: a.action,
            amount: a.amount,
            capacity: a.capacity,
        }),
        lists: map_values(spec.lists.clone(), |a| proto::ListAction {
            add_values: a.add_values.unwrap_or_default(),
            delete_values: a.delete_values.unwrap_or_default(),
            capacity: a.capacity,
        }),
    }
}

fn selector_message(selector: &GameServerSelector) -> proto::GameServerSelector {
    proto::GameServerSelector {
        match_labels: selector.match_labels.clone(),
        match_expressions: selector
            .match_expressions
            .iter()
            .map(|e| proto::LabelMatchExpressions {
                key: e.key.clone(),
                operator: Operator::from_str_name(&e.operator).unwrap_or(Operator::In).into(),
                values: e.values.clone().unwrap_or_default(),
            })
            .collect(),
        game_server_state: match selector.game_server_state.unwrap_or_default() {
            SelectedState::Ready => GameServerState::Ready.into(),
            SelectedState::Allocated => GameServerState::Allocated.into(),
        },
        counters: map_values(selector.counters.clone(), |c| proto::CounterSelector {
            min_count: c.min_count,
            max_count: c.max_count,
            min_available: c.min_available,
            max_available: c.max_available,
        }),
        lists: map_values(selector.lists.clone(), |l| proto::ListSelector {
            contains_value: l.contains_value,
            min_available: l.min_available,
            max_available: l.max_available,
        }),
    }
}

/// Converts a priority. The message has no values for those of the first design, which become Agones' own.
fn priority_message(priority: &Priority) -> proto::Priority {
    use proto::priority::{Order as ProtoOrder, Type};
    proto::Priority {
        r#type: match priority.type_ {
            PriorityType::Counter | PriorityType::CountValue => Type::Counter.into(),
            PriorityType::List | PriorityType::ListLength => Type::List.into(),
        },
        key: priority.key.clone(),
        order: match priority.order {
            // More players on a server means less room.
            Some(Order::Ascending | Order::BiggerIsBetter) | None => ProtoOrder::Ascending.into(),
            Some(Order::Descending | Order::SmallerIsBetter) => ProtoOrder::Descending.into(),
        },
    }
}

fn map_values<T, U>(map: BTreeMap<String, T>, convert: impl Fn(T) -> U) -> BTreeMap<String, U> {
    map.into_iter().map(|(key, value)| (key, convert(value))).collect()
}
