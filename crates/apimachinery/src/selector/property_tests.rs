//! Property tests of selectors.

use super::LabelSelector;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn labels() -> impl Strategy<Value = Map<String, Value>> {
    proptest::collection::btree_map("[a-c]", "[x-z0-9]?".prop_map(Value::from), 0..4)
        .prop_map(|m| m.into_iter().collect())
}

fn requirement() -> impl Strategy<Value = String> {
    let values = proptest::collection::vec("[x-z0-9]?", 1..4).prop_map(|values| values.join(","));
    prop_oneof![
        "[a-c]",
        "![a-c]",
        ("[a-c]", "=|==|!=", "[x-z0-9]?")
            .prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
        ("[a-c]", "in|notin", values)
            .prop_map(|(key, operator, values)| format!("{key} {operator} ({values})")),
        ("[a-c]", "[<>]", "[0-9]")
            .prop_map(|(key, operator, value)| format!("{key}{operator}{value}")),
    ]
}

proptest! {
    #[test]
    fn a_formatted_selector_matches_the_same_labels(parts in proptest::collection::vec(requirement(), 0..4), labels in labels()) {
        let selector = LabelSelector::parse(&parts.join(",")).unwrap();
        let again = LabelSelector::parse(&selector.to_string()).unwrap();
        prop_assert_eq!(selector.matches(Some(&labels)), again.matches(Some(&labels)));
        prop_assert_eq!(&again.to_string(), &selector.to_string());
    }

    #[test]
    fn a_selector_matches_if_all_its_parts_match(parts in proptest::collection::vec(requirement(), 1..4), labels in labels()) {
        let whole = LabelSelector::parse(&parts.join(",")).unwrap().matches(Some(&labels));
        let each = parts.iter().all(|part| LabelSelector::parse(part).unwrap().matches(Some(&labels)));
        prop_assert_eq!(whole, each);
    }

    #[test]
    fn in_and_notin_are_opposites(values in "[x-z](,[x-z]){0,2}", labels in labels()) {
        let within = LabelSelector::parse(&format!("a in ({values})")).unwrap();
        let without = LabelSelector::parse(&format!("a notin ({values})")).unwrap();
        prop_assert_ne!(within.matches(Some(&labels)), without.matches(Some(&labels)));
    }

    #[test]
    fn an_objects_own_labels_match_it(labels in labels()) {
        prop_assert!(LabelSelector::from_map(&labels).matches(Some(&labels)));
    }

    #[test]
    fn parsing_never_panics(text in "[a-c!=<>(), \t\\\\.é\u{0}-]{0,24}") {
        crate::fuzzing::selector(text.as_bytes());
    }
}
