//! Validates labels, annotations and label selectors as Kubernetes does.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta};

use crate::{CauseType, Problem, prefixed};

/// The most that the annotations of one object may hold, keys and values together.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// Checks the labels and annotations of `metadata` at `path`.
pub(crate) fn metadata(metadata: &ObjectMeta, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    if let Some(map) = &metadata.labels {
        out.extend(labels(map, &format!("{path}.labels")));
    }
    if let Some(map) = &metadata.annotations {
        out.extend(annotations(map, &format!("{path}.annotations")));
    }
    out
}

/// Checks the keys and values of labels. All that is wrong is reported at `path`, as Kubernetes' own check does.
pub(crate) fn labels(map: &BTreeMap<String, String>, path: &str) -> Vec<Problem> {
    let faults = map.iter().flat_map(|(key, value)| {
        let of_value = value_faults(value).into_iter().map(move |fault| format!("{key}: {fault}"));
        key_faults(key).into_iter().chain(of_value)
    });
    faults.map(|message| Problem::new(path, message)).collect()
}

/// Checks the keys and the size of annotations at `path`.
pub(crate) fn annotations(map: &BTreeMap<String, String>, path: &str) -> Vec<Problem> {
    let keys = map.keys().flat_map(|key| key_faults(&key.to_lowercase()));
    let mut out: Vec<_> = keys.map(|message| Problem::new(path, message)).collect();
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATION_BYTES {
        let message = format!("expected at most {ANNOTATION_BYTES} bytes, found {bytes}");
        out.push(Problem::of(CauseType::TooLong, path, message));
    }
    out
}

/// Checks the two halves of a label selector. The first fault is reported at `path`, with the place in its message.
pub(crate) fn selector(
    labels: &BTreeMap<String, String>,
    expressions: &[LabelSelectorRequirement],
    path: &str,
) -> Option<Problem> {
    let of_labels = self::labels(labels, "matchLabels").into_iter();
    let expressions = expressions.iter().enumerate().flat_map(|(index, expression)| {
        prefixed(&format!("matchExpressions[{index}]"), requirement(expression))
    });
    of_labels.chain(expressions).next().map(|fault| Problem::new(path, fault.to_string()))
}

fn requirement(expression: &LabelSelectorRequirement) -> Vec<Problem> {
    let mut out = Vec::new();
    let values = expression.values.as_deref().unwrap_or_default();
    match (expression.operator.as_str(), values.is_empty()) {
        ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {}
        ("In" | "NotIn", true) => out.push(Problem::new("values", "required with In and NotIn")),
        ("Exists" | "DoesNotExist", false) => {
            out.push(Problem::new("values", "not allowed with Exists and DoesNotExist"));
        }
        (other, _) => {
            let choices = ["In", "NotIn", "Exists", "DoesNotExist"];
            out.push(Problem::not_supported("operator", other, &choices));
        }
    }
    out.extend(key_faults(&expression.key).into_iter().map(|m| Problem::new("key", m)));
    for (index, value) in values.iter().enumerate() {
        let faults = value_faults(value).into_iter();
        out.extend(faults.map(|m| Problem::new(format!("values[{index}]"), m)));
    }
    out
}

/// Lists what is wrong with the key of a label: an optional DNS name and a slash, then a name. Each rule that is broken counts.
fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let (prefix, name) = match key.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "`{key}` has more than one slash; write it like `example.com/tier`"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => faults.push(format!("`{key}` has nothing before its slash")),
        Some(prefix) => {
            if prefix.len() > 253 {
                faults.push(format!("`{key}` has more than 253 characters before its slash"));
            }
            if !prefix.split('.').all(is_dns_label) {
                faults.push(format!("`{prefix}` in `{key}` is not a DNS name"));
            }
        }
        None => {}
    }
    match name.len() {
        0 => faults.push(format!("`{key}` has no name")),
        1..=63 => {}
        _ => faults.push(format!("`{key}` has a name of more than 63 characters")),
    }
    if !is_word(name) {
        let message = format!(
            "`{key}` is not a key; write it like `tier` or `example.com/tier`, of letters, digits, `-`, `_` and `.`"
        );
        faults.push(message);
    }
    faults
}

/// Lists what is wrong with the value of a label. Each rule that is broken counts.
fn value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push(format!("`{value}` has more than 63 characters"));
    }
    if !value.is_empty() && !is_word(value) {
        let message = format!(
            "`{value}` is not a label value; write letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit"
        );
        faults.push(message);
    }
    faults
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Whether a part of a DNS name is written as one. How long it may be is a matter of the whole name, as Kubernetes counts it.
fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const LONG_AND_WRONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa a";

    #[test]
    fn keys_and_values_follow_kubernetes() {
        for (key, value, faults) in [
            ("a", "", 0),
            ("example.com/A_b.c-1", "x.Y_z-1", 0),
            ("", "", 2),
            ("a/b/c", "", 1),
            ("/a", "", 1),
            ("Example.com/a", "", 1),
            ("-a", "-b", 2),
            ("a", "b c", 1),
            ("a", LONG, 1),
            ("a", LONG_AND_WRONG, 2),
        ] {
            let map = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            let found = labels(&map, "p");
            assert_eq!(found.len(), faults, "{key}={value}: {found:?}");
            assert!(found.iter().all(|problem| problem.path == "p"), "{found:?}");
        }
        let long = BTreeMap::from([("Example.com/a".to_owned(), "x".repeat(ANNOTATION_BYTES))]);
        assert_eq!(
            annotations(&long, "p").len(),
            1,
            "the size counts, the case of a prefix does not"
        );
    }

    #[test]
    fn selectors_need_values_where_their_operator_does() {
        let expression = |operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: "a".to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        for (operator, values, wanted) in [
            ("In", vec!["x"], None),
            ("Exists", vec![], None),
            ("In", vec![], Some("matchExpressions[0].values: ")),
            ("Exists", vec!["x"], Some("matchExpressions[0].values: ")),
            ("Near", vec!["x"], Some("matchExpressions[0].operator: ")),
            ("NotIn", vec!["a b"], Some("matchExpressions[0].values[0]: ")),
        ] {
            let found = selector(&BTreeMap::new(), &[expression(operator, &values)], "s");
            let message = found.as_ref().map_or("", |p| p.message.as_str());
            assert_eq!(found.is_some(), wanted.is_some(), "{operator} {values:?}");
            assert!(message.starts_with(wanted.unwrap_or_default()), "{message}");
        }
    }
}
