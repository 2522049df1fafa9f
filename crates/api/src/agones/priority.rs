//! Sorting of game servers by their counters and lists, in either dialect.

use decide::gameserver::{self as normal, First, Measure, Missing, Source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CauseType, Problem};

/// A sort key of game servers. The first entry in which two servers differ decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Priority {
    /// `Counter` or `List`: sort by the capacity that is left. `count` or `list`: sort by the count, or the number of
    /// values.
    #[serde(rename = "type")]
    pub type_: PriorityType,
    /// The name of the counter or list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// With `Counter` and `List`, `Ascending` puts little room first, to be removed and to be allocated. With `count` and
    /// `list`, `ascending` means that more is better, to be kept and to be allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// The type of a priority: a counter or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PriorityType {
    /// The capacity that a counter has left.
    Counter,
    /// The capacity that a list has left.
    List,
    /// The value of a counter.
    #[serde(rename = "count")]
    CountValue,
    /// The number of values in a list.
    #[serde(rename = "list")]
    ListLength,
}

/// Which way a priority sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// The least room first.
    Ascending,
    /// The most room first.
    Descending,
    /// The bigger number is better.
    #[serde(rename = "ascending")]
    BiggerIsBetter,
    /// The smaller number is better.
    #[serde(rename = "descending")]
    SmallerIsBetter,
}

impl PriorityType {
    /// Whether this is how the first design of counts and lists spelled it.
    fn is_first_design(self) -> bool {
        matches!(self, Self::CountValue | Self::ListLength)
    }

    fn source(self) -> Source {
        match self {
            Self::Counter | Self::CountValue => Source::Counter,
            Self::List | Self::ListLength => Source::List,
        }
    }

    /// Returns the default order.
    fn usual_order(self) -> Order {
        if self.is_first_design() { Order::BiggerIsBetter } else { Order::Ascending }
    }
}

impl Order {
    fn is_first_design(self) -> bool {
        matches!(self, Self::BiggerIsBetter | Self::SmallerIsBetter)
    }
}

/// Fills in the order of every priority that has none.
pub(crate) fn fill_order(priorities: &mut [Priority]) {
    for priority in priorities {
        priority.order.get_or_insert(priority.type_.usual_order());
    }
}

/// Finds priorities whose halves are from different dialects: their meaning is ambiguous.
pub(crate) fn mixed(priorities: &[Priority], path: &str) -> Vec<Problem> {
    let is_mixed =
        |p: &Priority| p.order.is_some_and(|o| o.is_first_design() != p.type_.is_first_design());
    let message = "expected Ascending or Descending with Counter and List, ascending or descending with count and list";
    priorities
        .iter()
        .enumerate()
        .filter(|(_, p)| is_mixed(p))
        .map(|(i, _)| Problem::of(CauseType::NotSupported, format!("{path}[{i}].order"), message))
        .collect()
}

/// Returns the order in which game servers are deleted. The first design lists which are kept, so the others come first,
/// and before all of them those that do not have the key.
pub(crate) fn for_deletion(priorities: &[Priority]) -> Vec<normal::Priority> {
    let read = |p: &Priority| match p.order.unwrap_or(p.type_.usual_order()) {
        Order::Ascending | Order::Descending => p.by_available(),
        Order::BiggerIsBetter => p.by_used(First::Smallest, Missing::First),
        Order::SmallerIsBetter => p.by_used(First::Largest, Missing::First),
    };
    priorities.iter().map(read).collect()
}

/// Returns the order in which game servers are tried. The first design lists which are preferred, so they come first.
pub(crate) fn for_allocation(priorities: &[Priority]) -> Vec<normal::Priority> {
    let read = |p: &Priority| match p.order.unwrap_or(p.type_.usual_order()) {
        Order::Ascending | Order::Descending => p.by_available(),
        Order::BiggerIsBetter => p.by_used(First::Largest, Missing::Last),
        Order::SmallerIsBetter => p.by_used(First::Smallest, Missing::Last),
    };
    priorities.iter().map(read).collect()
}

impl Priority {
    fn by_available(&self) -> normal::Priority {
        let order = self.order.map(|order| match order {
            Order::Ascending | Order::BiggerIsBetter => First::Smallest,
            Order::Descending | Order::SmallerIsBetter => First::Largest,
        });
        normal::Priority::by_available(self.type_.source(), self.key.as_str(), order)
    }

    fn by_used(&self, first: First, missing: Missing) -> normal::Priority {
        let (source, key) = (self.type_.source(), self.key.as_str().into());
        normal::Priority { source, key, measure: Measure::Used, first, missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bigger_is_better_means_kept_longer_and_tried_sooner() {
        for (order, deleted, tried) in [
            (None, First::Smallest, First::Largest),
            (Some(Order::BiggerIsBetter), First::Smallest, First::Largest),
            (Some(Order::SmallerIsBetter), First::Largest, First::Smallest),
        ] {
            let one = [Priority { type_: PriorityType::ListLength, key: "a".to_owned(), order }];
            let (deletion, allocation) = (&for_deletion(&one)[0], &for_allocation(&one)[0]);
            assert_eq!((deletion.first, allocation.first), (deleted, tried), "{order:?}");
            assert_eq!((deletion.measure, deletion.source), (Measure::Used, Source::List));
            assert_eq!((deletion.missing, allocation.missing), (Missing::First, Missing::Last));
        }
    }

    #[test]
    fn agones_orders_mean_the_same_to_deletion_and_allocation() {
        for (order, first, missing) in [
            (Some(Order::Ascending), First::Smallest, Missing::Last),
            (Some(Order::Descending), First::Largest, Missing::Last),
            (None, First::Smallest, Missing::Undecided),
        ] {
            let one = [Priority { type_: PriorityType::Counter, key: "a".to_owned(), order }];
            assert_eq!(for_deletion(&one), for_allocation(&one));
            let normal = &for_deletion(&one)[0];
            assert_eq!((normal.first, normal.missing), (first, missing), "{order:?}");
            assert_eq!((normal.measure, normal.source), (Measure::Available, Source::Counter));
        }
    }
}
