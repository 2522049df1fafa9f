//! Label and node selectors.

use super::Labels;

/// How a requirement compares a label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// Only for nodes: the label is a whole number above the value.
    Gt,
    /// Only for nodes: the label is a whole number below the value.
    Lt,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: Box<str>,
    pub operator: Operator,
    pub values: Box<[Box<str>]>,
}

impl Requirement {
    /// Returns whether a label with this value (`None`: absent) meets the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let among = |v: &str| self.values.iter().any(|wanted| &**wanted == v);
        match self.operator {
            Operator::In => value.is_some_and(among),
            Operator::NotIn => !value.is_some_and(among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |label, wanted| label > wanted),
            Operator::Lt => self.compares(value, |label, wanted| label < wanted),
        }
    }

    /// Compares integers. A negative value matches nothing: the API rejects it.
    fn compares(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let [wanted] = &*self.values else { return false };
        match (value.and_then(|v| v.parse().ok()), wanted.parse::<i64>()) {
            (Some(label), Ok(wanted)) => wanted >= 0 && holds(label, wanted),
            _ => false,
        }
    }
}

/// A selector of pods or namespaces: all requirements must be met. `matchLabels` are requirements `In` with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    /// Sorted. Empty: everything matches.
    pub requirements: Box<[Requirement]>,
    /// An absent selector, which matches nothing.
    pub matches_nothing: bool,
}

impl LabelSelector {
    /// Returns the selector of an absent field: it matches nothing.
    pub fn nothing() -> Self {
        Self { requirements: Box::default(), matches_nothing: true }
    }

    /// Returns the selector that requires each of `labels`.
    pub fn of_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let one = |(key, value): (&str, &str)| Requirement {
            key: key.into(),
            operator: Operator::In,
            values: [value.into()].into(),
        };
        let mut requirements: Vec<_> = labels.into_iter().map(one).collect();
        requirements.sort();
        Self { requirements: requirements.into(), matches_nothing: false }
    }

    /// Returns whether these labels match.
    pub fn matches(&self, labels: &Labels) -> bool {
        !self.matches_nothing && self.requirements.iter().all(|r| r.matches(labels.get(&r.key)))
    }

    /// Returns whether everything matches.
    pub fn is_empty(&self) -> bool {
        !self.matches_nothing && self.requirements.is_empty()
    }
}

/// One term of a required node affinity: all of it must match. An empty term matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    /// About the node's labels.
    pub labels: Box<[Requirement]>,
    /// About the node's name (`matchFields` of `metadata.name`); the key is ignored.
    pub name: Box<[Requirement]>,
}

impl NodeTerm {
    /// Returns whether a node with this name and these labels matches.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let nothing = self.labels.is_empty() && self.name.is_empty();
        !nothing
            && self.labels.iter().all(|r| r.matches(labels.get(&r.key)))
            && self.name.iter().all(|r| r.matches(Some(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_compares_as_in_kubernetes() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        for (operator, values, label, matches) in [
            (In, &["a", "b"][..], Some("b"), true),
            (In, &["a"], Some("b"), false),
            (In, &["a"], None, false),
            (NotIn, &["a"], Some("a"), false),
            (NotIn, &["a"], Some("b"), true),
            (NotIn, &["a"], None, true),
            (Exists, &[], Some(""), true),
            (Exists, &[], None, false),
            (DoesNotExist, &[], None, true),
            (DoesNotExist, &[], Some(""), false),
            (Gt, &["5"], Some("6"), true),
            (Gt, &["5"], Some("5"), false),
            (Lt, &["5"], Some("4"), true),
            (Lt, &["5"], Some("x"), false),
            (Lt, &["5"], None, false),
            (Gt, &["-5"], Some("4"), false),
            (Lt, &["1", "2"], Some("0"), false),
        ] {
            let values = values.iter().map(|v| (*v).into()).collect();
            let requirement = Requirement { key: "k".into(), operator, values };
            assert_eq!(requirement.matches(label), matches, "{requirement:?} of {label:?}");
        }
    }

    #[test]
    fn an_empty_selector_matches_all_and_an_absent_one_nothing() {
        assert!(LabelSelector::default().matches(&Labels::default()));
        assert!(!LabelSelector::nothing().matches(&Labels::default()));
        assert!(!NodeTerm::default().matches("n", &Labels::default()));
    }
}
