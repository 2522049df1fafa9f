//! Validates names, labels, port names and similar strings.

use std::sync::LazyLock;

use regex::Regex;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const PERCENT: &str = "[0-9]+%";
const HTTP_HEADER: &str = "[-A-Za-z0-9]+";

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(&format!("^(?:{})$", $text)).expect("the patterns in this file are valid")
        });
        &PATTERN
    }};
}

/// The rules that a string violates; empty when it is valid.
pub type Violations = Vec<String>;

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn mismatch(sentence: &str, format: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}'")).collect();
    format!(
        "{sentence} (e.g. {}, regex used for validation is '{format}')",
        examples.join(",  or ")
    )
}

fn checked(
    text: &str,
    limit: usize,
    pattern: &Regex,
    violation: impl FnOnce() -> String,
) -> Violations {
    let mut violations = Violations::new();
    if text.len() > limit {
        violations.push(too_long(limit));
    }
    if !pattern.is_match(text) {
        violations.push(violation());
    }
    violations
}

/// Validates an RFC 1123 label, such as a namespace's name.
pub fn label(text: &str) -> Violations {
    checked(text, 63, pattern!(LABEL), || {
        if pattern!(SUBDOMAIN).is_match(text) {
            return "must not contain dots".to_owned();
        }
        let sentence = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                        start and end with an alphanumeric character";
        mismatch(sentence, LABEL, &["my-name", "123-abc"])
    })
}

/// Validates an RFC 1123 subdomain, such as most objects' names.
pub fn subdomain(text: &str) -> Violations {
    checked(text, 253, pattern!(SUBDOMAIN), || {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                        and must start and end with an alphanumeric character";
        mismatch(sentence, SUBDOMAIN, &["example.com"])
    })
}

/// Validates a DNS search domain: a subdomain that may have underscores.
pub fn search_domain(text: &str) -> Violations {
    const FORMAT: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
    checked(text, 253, pattern!(FORMAT), || {
        let sentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                        '.', and must start and end with an alphanumeric character";
        mismatch(sentence, FORMAT, &["example.com"])
    })
}

/// Validates an RFC 1035 label, such as a CRD's plural.
pub fn label_1035(text: &str) -> Violations {
    checked(text, 63, pattern!(LABEL_1035), || {
        let sentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character";
        mismatch(sentence, LABEL_1035, &["my-name", "abc-123"])
    })
}

/// Validates a qualified name, such as a label's key.
pub fn qualified(text: &str) -> Violations {
    let mut violations = Violations::new();
    let sentence = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                    character";
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                violations.push("prefix part must be non-empty".to_owned());
            } else {
                violations
                    .extend(subdomain(prefix).into_iter().map(|f| format!("prefix part {f}")));
            }
            *name
        }
        _ => {
            let violation = mismatch(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character",
                QUALIFIED,
                &["MyName", "my.name", "123-abc"],
            );
            return vec![format!(
                "{violation} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        violations.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        violations.push("name part must be no more than 63 bytes".to_owned());
    }
    if !pattern!(QUALIFIED).is_match(name) {
        let violation = mismatch(sentence, QUALIFIED, &["MyName", "my.name", "123-abc"]);
        violations.push(format!("name part {violation}"));
    }
    violations
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> Violations {
    let mut violations = Violations::new();
    if text.len() > 63 {
        violations.push("must be no more than 63 bytes".to_owned());
    }
    if !pattern!(LABEL_VALUE).is_match(text) {
        let sentence = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                        must start and end with an alphanumeric character";
        violations.push(mismatch(sentence, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    violations
}

/// Validates a key of a ConfigMap or a Secret.
pub fn config_key(text: &str) -> Violations {
    let mut violations = checked(text, 253, pattern!(CONFIG_KEY), || {
        let sentence =
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        mismatch(sentence, CONFIG_KEY, &["key.name", "KEY_NAME", "key-name"])
    });
    match text {
        "." => violations.push("must not be '.'".to_owned()),
        ".." => violations.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => violations.push("must not start with '..'".to_owned()),
        _ => {}
    }
    violations
}

/// Validates the name of a port.
pub fn port_name(text: &str) -> Violations {
    let mut violations = Violations::new();
    if text.len() > 15 {
        violations.push(too_long(15));
    }
    if !pattern!("[-a-z0-9]+").is_match(text) {
        let violation = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        violations.push(violation.to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        violations.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        violations.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        violations.push("must not begin or end with a hyphen".to_owned());
    }
    violations
}

/// Validates the number of a port.
pub fn port_number(port: i64) -> Violations {
    if (1..=65535).contains(&port) {
        return Violations::new();
    }
    vec!["must be between 1 and 65535, inclusive".to_owned()]
}

/// Validates the name of an environment variable: printable ASCII without `=`.
pub fn environment_variable(text: &str) -> Violations {
    if text.is_empty() {
        return vec!["environment variable name must not be empty".to_owned()];
    }
    let is_good = text.chars().all(|c| (' '..='~').contains(&c) && c != '=');
    if is_good {
        return Violations::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// Validates a percentage.
pub fn percent(text: &str) -> Violations {
    if pattern!(PERCENT).is_match(text) {
        return Violations::new();
    }
    let sentence = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![mismatch(sentence, PERCENT, &["1%", "93%"])]
}

/// Validates the name of an HTTP header.
pub fn http_header(text: &str) -> Violations {
    if pattern!(HTTP_HEADER).is_match(text) {
        return Violations::new();
    }
    let sentence = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![mismatch(sentence, HTTP_HEADER, &["X-Header-Name"])]
}

/// Validates a name that is a segment of a URL path, such as a role's.
pub fn path_segment(text: &str) -> Violations {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let mut violations = Violations::new();
    for mark in ["/", "%"] {
        if text.contains(mark) {
            violations.push(format!("may not contain '{mark}'"));
        }
    }
    violations
}

/// Validates a `generateName`: the prefix of a name whose end is generated later.
pub fn generated(prefix: &str, check: fn(&str) -> Violations) -> Violations {
    match prefix.strip_suffix('-') {
        // Go replaces a trailing dash by a letter, so that `web-` is as valid as `web-a`.
        Some(start) => check(&format!("{start}a")),
        None => check(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_have_no_violations() {
        assert!(label("my-name").is_empty());
        assert!(subdomain("a.b-c.d").is_empty());
        assert!(label_1035("abc").is_empty());
        assert!(qualified("example.com/My_Name").is_empty());
        assert!(label_value("").is_empty());
        assert!(config_key("a.b_c").is_empty());
        assert!(port_name("http").is_empty());
        assert!(generated("web-", label).is_empty());
    }

    #[test]
    fn messages_match_kube_apiserver() {
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(
            subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
              and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert_eq!(qualified("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            label_value("-"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
              and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
              validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }
}
