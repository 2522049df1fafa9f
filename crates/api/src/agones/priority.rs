//! Which game servers come first, by their counters and lists; in either dialect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Problem;

/// One thing that game servers are sorted by. The first entry that tells two servers apart decides.
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

/// What a priority looks at.
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

    /// Gives the order that leaving it out means.
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

/// Finds priorities whose halves are from different dialects: what they mean is anyone's guess.
pub(crate) fn mixed(priorities: &[Priority], path: &str) -> Vec<Problem> {
    let is_mixed =
        |p: &Priority| p.order.is_some_and(|o| o.is_first_design() != p.type_.is_first_design());
    let message = "expected Ascending or Descending with Counter and List, ascending or descending with count and list";
    priorities
        .iter()
        .enumerate()
        .filter(|(_, p)| is_mixed(p))
        .map(|(i, _)| Problem::new(format!("{path}[{i}].order"), message))
        .collect()
}
