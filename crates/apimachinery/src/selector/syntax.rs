//! Validates label keys and values in selectors.

use super::InvalidSelector;
use crate::quote::quote;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/// Rejects an invalid label key; `field` is the path in the message.
pub(super) fn check_key(field: &str, key: &str) -> Result<(), InvalidSelector> {
    refuse(field, key, &key_problems(key))
}

/// Rejects an invalid label value; `field` is the path in the message.
pub(super) fn check_value(field: &str, value: &str) -> Result<(), InvalidSelector> {
    refuse(field, value, &value_problems(value))
}

fn refuse(field: &str, text: &str, problems: &[String]) -> Result<(), InvalidSelector> {
    if problems.is_empty() {
        return Ok(());
    }
    Err(InvalidSelector(format!(
        "{field}: Invalid value: {}: {}",
        quote(text),
        problems.join("; ")
    )))
}

fn key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            prefix_problems(prefix, &mut problems);
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                name_rule()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".into());
    }
    if !is_name(name) {
        problems.push(format!("name part {}", name_rule()));
    }
    problems
}

fn prefix_problems(prefix: &str, problems: &mut Vec<String>) {
    if prefix.is_empty() {
        problems.push("prefix part must be non-empty".into());
        return;
    }
    if prefix.len() > 253 {
        problems.push("prefix part must be no more than 253 bytes".into());
    }
    if !prefix.split('.').all(is_dns_label) {
        problems.push(format!(
            "prefix part {SUBDOMAIN_RULE} (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
        ));
    }
}

fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".into());
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '({NAME})?')"
        ));
    }
    problems
}

fn name_rule() -> String {
    format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
    )
}

fn is_name(text: &str) -> bool {
    edges_and_middle(text, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_label(text: &str) -> bool {
    edges_and_middle(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-')
}

/// Returns whether the text consists of `edge` bytes, with `inner` bytes allowed anywhere but first and last.
fn edges_and_middle(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    edge(first) && edge(last) && bytes.iter().all(|&b| edge(b) || inner(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_follow_the_label_rules() {
        for good in ["a", "A.b_c-1", "example.com/a", "9"] {
            assert_eq!(key_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in
            ["", "-a", "a-", "a/b/c", "/a", "Ex.com/a", "a..b/c", "ü", "a b", &"a".repeat(64)]
        {
            assert!(!key_problems(bad).is_empty(), "{bad}");
        }
        for (value, good) in [("", true), ("a", true), ("a_b", true), ("_a", false), ("a/b", false)]
        {
            assert_eq!(value_problems(value).is_empty(), good, "{value}");
        }
    }
}
