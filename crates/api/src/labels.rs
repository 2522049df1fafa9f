//! Are labels, annotations and label selectors written as Kubernetes wants them?

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta};

use crate::Problem;

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

/// Checks the keys and values of labels at `path`.
pub(crate) fn labels(map: &BTreeMap<String, String>, path: &str) -> Vec<Problem> {
    let keys = map.keys().filter_map(|key| key_fault(key)).map(|m| Problem::new(path, m));
    let values = map.iter().filter_map(|(key, value)| Some((key, value_fault(value)?)));
    keys.chain(values.map(|(key, m)| Problem::new(format!("{path}[{key}]"), m))).collect()
}

/// Checks the keys and the size of annotations at `path`.
pub(crate) fn annotations(map: &BTreeMap<String, String>, path: &str) -> Vec<Problem> {
    let keys = map.keys().filter_map(|key| key_fault(&key.to_lowercase()));
    let mut out: Vec<_> = keys.map(|message| Problem::new(path, message)).collect();
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATION_BYTES {
        out.push(Problem::new(
            path,
            format!("expected at most {ANNOTATION_BYTES} bytes, found {bytes}"),
        ));
    }
    out
}

/// Checks the two halves of a label selector at `path`.
pub(crate) fn selector(
    labels: &BTreeMap<String, String>,
    expressions: &[LabelSelectorRequirement],
    path: &str,
) -> Vec<Problem> {
    let mut out = self::labels(labels, &format!("{path}.matchLabels"));
    for (index, expression) in expressions.iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = expression.values.as_deref().unwrap_or_default();
        match (expression.operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => {}
            ("In" | "NotIn", true) => {
                out.push(Problem::new(format!("{path}.values"), "required with In and NotIn"));
            }
            ("Exists" | "DoesNotExist", false) => {
                let message = "not allowed with Exists and DoesNotExist";
                out.push(Problem::new(format!("{path}.values"), message));
            }
            (other, _) => {
                let message =
                    format!("expected one of In, NotIn, Exists, DoesNotExist, found {other:?}");
                out.push(Problem::new(format!("{path}.operator"), message));
            }
        }
        out.extend(key_fault(&expression.key).map(|m| Problem::new(format!("{path}.key"), m)));
        let faults = values.iter().enumerate().filter_map(|(i, v)| Some((i, value_fault(v)?)));
        out.extend(faults.map(|(i, m)| Problem::new(format!("{path}.values[{i}]"), m)));
    }
    out
}

/// Says what is wrong with the key of a label: an optional DNS name and a slash, then a name.
fn key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_dns = |p: &str| p.len() <= 253 && p.split('.').all(is_dns_label);
    let is_fine = (1..=63).contains(&name.len()) && is_word(name) && prefix.is_none_or(is_dns);
    (!is_fine).then(|| {
        format!("`{key}` is not a key; write it like `tier` or `example.com/tier`, at most 63 characters after the slash")
    })
}

fn value_fault(value: &str) -> Option<String> {
    let is_fine = value.is_empty() || (value.len() <= 63 && is_word(value));
    (!is_fine).then(|| {
        format!("`{value}` is not a label value; at most 63 of letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit")
    })
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_follow_kubernetes() {
        for (key, value, faults) in [
            ("a", "", 0),
            ("example.com/A_b.c-1", "x.Y_z-1", 0),
            ("", "", 1),
            ("a/b/c", "", 1),
            ("Example.com/a", "", 1),
            ("-a", "-b", 2),
            ("a", "b c", 1),
        ] {
            let map = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            assert_eq!(labels(&map, "p").len(), faults, "{key}={value}");
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
            ("In", vec![], Some("s.matchExpressions[0].values")),
            ("Exists", vec!["x"], Some("s.matchExpressions[0].values")),
            ("Near", vec!["x"], Some("s.matchExpressions[0].operator")),
            ("NotIn", vec!["a b"], Some("s.matchExpressions[0].values[0]")),
        ] {
            let found = selector(&BTreeMap::new(), &[expression(operator, &values)], "s");
            assert_eq!(found.first().map(|p| p.path.as_str()), wanted, "{operator} {values:?}");
        }
    }
}
