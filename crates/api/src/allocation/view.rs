//! An allocation as the choice of a game server reads it.

use std::sync::Arc;

use decide::allocation::{
    self as normal, CounterBounds, CounterVerb, ListBounds, Request, Requirement, Selector,
};
use decide::gameserver::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

use super::{CounterAction, GameServerAllocation, GameServerSelector, ListAction, SelectedState};
use crate::agones::for_allocation;
use crate::agones::view::{named, texts};

impl GameServerAllocation {
    /// Converts the object into the input of the choice. `seed` is where chance comes from.
    pub fn view(&self, seed: u64) -> Request {
        let spec = &self.spec;
        Request {
            namespace: self.metadata.namespace.as_deref().unwrap_or("default").into(),
            selectors: spec.selectors.iter().map(GameServerSelector::view).collect(),
            priorities: for_allocation(&spec.priorities),
            scheduling: spec.scheduling.view(),
            labels: texts(Some(&spec.metadata.labels)),
            annotations: texts(Some(&spec.metadata.annotations)),
            counters: named(Some(&spec.counters), CounterAction::view),
            lists: named(Some(&spec.lists), ListAction::view),
            seed,
        }
    }
}

impl GameServerSelector {
    fn view(&self) -> Selector {
        // A greatest value of 0 is no bound on the wire.
        let most = |n: i64| (n != 0).then_some(n);
        Selector {
            labels: texts(Some(&self.match_labels)),
            expressions: self.match_expressions.iter().filter_map(requirement).collect(),
            state: match self.game_server_state.unwrap_or_default() {
                SelectedState::Ready => State::Ready,
                SelectedState::Allocated => State::Allocated,
            },
            counters: named(Some(&self.counters), |c| CounterBounds {
                min_count: c.min_count,
                max_count: most(c.max_count),
                min_available: c.min_available,
                max_available: most(c.max_available),
            }),
            lists: named(Some(&self.lists), |l| ListBounds {
                contains: (!l.contains_value.is_empty()).then(|| l.contains_value.as_str().into()),
                min_available: l.min_available,
                max_available: most(l.max_available),
            }),
        }
    }
}

impl CounterAction {
    fn view(&self) -> normal::CounterAction {
        let verb = |word: &str| match word {
            "Increment" => CounterVerb::Increment,
            "Decrement" => CounterVerb::Decrement,
            other => CounterVerb::Unknown(other.into()),
        };
        let change = self.action.as_deref().map(verb).zip(self.amount);
        normal::CounterAction { capacity: self.capacity, change }
    }
}

impl ListAction {
    fn view(&self) -> normal::ListAction {
        let add = shared(self.add_values.as_deref().unwrap_or_default());
        let delete = shared(self.delete_values.as_deref().unwrap_or_default());
        normal::ListAction { capacity: self.capacity, add, delete }
    }
}

/// Reads a requirement; its operator was validated.
fn requirement(expression: &LabelSelectorRequirement) -> Option<Requirement> {
    let key = expression.key.as_str().into();
    let values = || shared(expression.values.as_deref().unwrap_or_default());
    match expression.operator.as_str() {
        "In" => Some(Requirement::In(key, values())),
        "NotIn" => Some(Requirement::NotIn(key, values())),
        "Exists" => Some(Requirement::Exists(key)),
        "DoesNotExist" => Some(Requirement::DoesNotExist(key)),
        _ => None,
    }
}

fn shared(texts: &[String]) -> Vec<Arc<str>> {
    texts.iter().map(|t| t.as_str().into()).collect()
}
