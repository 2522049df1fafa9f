//! Field selectors.
//!
//! Only a few fields of each kind are selectable. An absent field compares as its zero value.

use super::InvalidSelector;
use crate::quote::quote;
use serde_json::Value;
use std::fmt;

/// The selectable fields of a kind.
#[derive(Clone, Copy, Debug)]
pub enum Selectable<'a> {
    /// A built-in kind, by group and kind.
    Builtin { group: &'a str, kind: &'a str },
    /// A custom kind: its scope and its version's `selectableFields` as dotted paths without a leading dot.
    Custom { namespaced: bool, fields: &'a [String] },
}

/// A field selector: it matches objects that meet all of its terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// The field as the client wrote it.
    field: String,
    /// The paths of the value: the first that exists counts.
    paths: Vec<String>,
    /// The value of an absent field.
    zero: &'static str,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the `fieldSelector` parameter for a kind.
    pub fn parse(text: &str, selectable: Selectable<'_>) -> Result<Self, InvalidSelector> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(InvalidSelector(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            terms.push((field, equal, unescape(value)?));
        }
        let terms = terms.into_iter().map(|(field, equal, value)| {
            let (paths, zero) = selectable.find(field)?;
            Ok(Term { field: field.to_owned(), paths, zero, equal, value })
        });
        Ok(Self { terms: terms.collect::<Result<_, InvalidSelector>>()? })
    }

    /// Returns whether this matches every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the one value that a field must have, if the selector requires one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.field == field)
            .map(|term| term.value.as_str())
    }

    /// Returns whether only the object's name and namespace are selected, which does not require decoding the object.
    pub fn is_name_only(&self) -> bool {
        self.terms
            .iter()
            .all(|term| matches!(term.field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// Returns whether an object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| term.matches(object))
    }

    /// Returns whether an object with this name and namespace may match.
    pub fn may_match(&self, namespace: Option<&str>, name: &str) -> bool {
        self.terms.iter().all(|term| match term.field.as_str() {
            "metadata.name" => (term.value == name) == term.equal,
            "metadata.namespace" => (term.value == namespace.unwrap_or_default()) == term.equal,
            _ => true,
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let operator = if term.equal { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{}{operator}{value}", if index == 0 { "" } else { "," }, term.field)?;
        }
        Ok(())
    }
}

impl Term {
    fn matches(&self, object: &Value) -> bool {
        let found = self.paths.iter().find_map(|path| lookup(object, path));
        let same = match found {
            Some(Value::String(text)) if !text.is_empty() || self.zero.is_empty() => {
                *text == self.value
            }
            Some(Value::Bool(value)) => (if *value { "true" } else { "false" }) == self.value,
            Some(Value::Number(number)) => number.to_string() == *self.value,
            _ => self.zero == self.value,
        };
        same == self.equal
    }
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    for name in path.split('.') {
        at = match name.split_once('[') {
            Some((name, _)) => at.get(name)?.get(0)?,
            None => at.get(name)?,
        };
    }
    (!at.is_null()).then_some(at)
}

impl Selectable<'_> {
    /// Returns the paths of a field and its zero value, or rejects it.
    fn find(&self, field: &str) -> Result<(Vec<String>, &'static str), InvalidSelector> {
        let plain = |known: bool| known.then(|| (vec![field.to_owned()], ""));
        let found = match self {
            Self::Custom { namespaced, fields } => plain(
                field == "metadata.name"
                    || (*namespaced && field == "metadata.namespace")
                    || fields.iter().any(|known| known == field),
            ),
            Self::Builtin { group, kind } => builtin(group, kind, field),
        };
        found.ok_or_else(|| InvalidSelector(self.refusal(field)))
    }

    fn refusal(&self, field: &str) -> String {
        match self {
            Self::Custom { .. } => format!("field label not supported: {field}"),
            Self::Builtin { group: "batch", kind: "Job" } => {
                format!("field label {} not supported for Job", quote(field))
            }
            Self::Builtin { group, kind } if own_fields(group, kind) => {
                format!("field label not supported: {field}")
            }
            Self::Builtin { .. } => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quote(field)
            ),
        }
    }
}

/// Returns whether a kind has selectable fields of its own.
fn own_fields(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (
            "",
            "Pod" | "Node" | "ReplicationController" | "Event" | "Namespace" | "Secret" | "Service"
        ) | ("events.k8s.io", "Event")
            | ("batch", "Job")
            | ("certificates.k8s.io", "CertificateSigningRequest")
    )
}

fn builtin(group: &str, kind: &str, field: &str) -> Option<(Vec<String>, &'static str)> {
    let at = |path: &str, zero| Some((vec![path.to_owned()], zero));
    match (group, kind, field) {
        (_, _, "metadata.name") => at(field, ""),
        ("", "Node" | "Namespace", "metadata.namespace") => None,
        ("certificates.k8s.io", _, "metadata.namespace") => None,
        (_, _, "metadata.namespace") => at(field, ""),
        ("", "Pod", "spec.host") => at("spec.nodeName", ""),
        ("", "Pod", "spec.hostNetwork") => at(field, "false"),
        ("", "Pod", "status.podIP") => {
            Some((vec!["status.podIPs[0].ip".into(), "status.podIP".into()], ""))
        }
        (
            "",
            "Pod",
            "spec.nodeName"
            | "spec.restartPolicy"
            | "spec.schedulerName"
            | "spec.serviceAccountName"
            | "status.phase"
            | "status.podIPs"
            | "status.nominatedNodeName",
        ) => at(field, ""),
        ("", "Node", "spec.unschedulable") => at(field, "false"),
        ("", "ReplicationController", "status.replicas") => at(field, "0"),
        ("", "Namespace", "status.phase") => at(field, ""),
        ("", "Secret", "type") => at(field, ""),
        ("", "Service", "spec.clusterIP" | "spec.type") => at(field, ""),
        ("batch", "Job", "status.successful") => at("status.succeeded", "0"),
        ("certificates.k8s.io", "CertificateSigningRequest", "spec.signerName") => at(field, ""),
        ("", "Event", _) => event_paths(field),
        ("events.k8s.io", "Event", "reportingController") => event_paths("reportingComponent"),
        ("events.k8s.io", "Event", "reason" | "type") => at(field, ""),
        ("events.k8s.io", "Event", _) => {
            event_paths(&format!("involvedObject.{}", field.strip_prefix("regarding.")?))
        }
        _ => None,
    }
}

/// Returns the paths of an event's field in both API groups.
fn event_paths(field: &str) -> Option<(Vec<String>, &'static str)> {
    let paths = match field {
        "reason" | "type" => vec![field.to_owned()],
        "reportingComponent" => vec!["reportingComponent".into(), "reportingController".into()],
        "source" => vec![
            "source.component".into(),
            "deprecatedSource.component".into(),
            "reportingComponent".into(),
            "reportingController".into(),
        ],
        _ => match field.strip_prefix("involvedObject.")? {
            name @ ("kind" | "namespace" | "name" | "uid" | "apiVersion" | "resourceVersion"
            | "fieldPath") => {
                vec![field.to_owned(), format!("regarding.{name}")]
            }
            _ => return None,
        },
    };
    Some((paths, ""))
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator into field, whether it requires equality, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[index..].strip_prefix(operator) {
                return Some((&term[..index], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, InvalidSelector> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence = other.map(String::from).unwrap_or_default();
                    return Err(InvalidSelector(format!(
                        "invalid field selector: invalid escape sequence: \\{sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(InvalidSelector(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POD: Selectable<'static> = Selectable::Builtin { group: "", kind: "Pod" };

    #[test]
    fn terms_are_compared_with_fields() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x", "hostNetwork": true},
                         "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}});
        for (selector, selected) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("metadata.name==a,metadata.namespace=n", true),
            ("spec.nodeName=", false),
            ("spec.host=x", true),
            ("spec.hostNetwork=true", true),
            ("status.podIP=10.0.0.1", true),
            ("status.nominatedNodeName=", true),
            ("status.phase!=Failed,status.phase!=Succeeded", true),
        ] {
            assert_eq!(
                FieldSelector::parse(selector, POD).unwrap().matches(&pod),
                selected,
                "{selector}"
            );
        }
    }

    #[test]
    fn absent_fields_compare_as_zero() {
        let node = Selectable::Builtin { group: "", kind: "Node" };
        let job = Selectable::Builtin { group: "batch", kind: "Job" };
        assert!(
            FieldSelector::parse("spec.unschedulable=false", node).unwrap().matches(&json!({}))
        );
        assert!(!FieldSelector::parse("spec.unschedulable=", node).unwrap().matches(&json!({})));
        assert!(FieldSelector::parse("status.successful=0", job).unwrap().matches(&json!({})));
        assert!(
            FieldSelector::parse("status.successful=2", job)
                .unwrap()
                .matches(&json!({"status": {"succeeded": 2}}))
        );
    }

    #[test]
    fn messages_about_unsupported_fields_match_kube_apiserver() {
        let custom = ["spec.color".to_owned()];
        let custom = Selectable::Custom { namespaced: false, fields: &custom };
        let deployment = Selectable::Builtin { group: "apps", kind: "Deployment" };
        let job = Selectable::Builtin { group: "batch", kind: "Job" };
        assert!(
            FieldSelector::parse("spec.color=red", custom)
                .unwrap()
                .matches(&json!({"spec": {"color": "red"}}))
        );
        for (selector, kind, message) in [
            ("a=b", POD, "field label not supported: a"),
            ("metadata.namespace=b", custom, "field label not supported: metadata.namespace"),
            (
                "a=b",
                deployment,
                "\"a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            ("a=b", job, "field label \"a\" not supported for Job"),
            ("a", POD, "invalid selector: 'a'; can't understand 'a'"),
            ("metadata.name=a\\b", POD, "invalid field selector: invalid escape sequence: \\b"),
            ("metadata.name=a=b", POD, "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(selector, kind).unwrap_err().0, message);
        }
    }

    #[test]
    fn events_of_both_groups_are_selected() {
        let core = json!({"involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "kubelet"}});
        let new =
            json!({"regarding": {"kind": "Pod", "name": "a"}, "reportingController": "kubelet"});
        for event in [core, new] {
            let group = Selectable::Builtin { group: "", kind: "Event" };
            let selector = FieldSelector::parse(
                "involvedObject.kind=Pod,involvedObject.name=a,source=kubelet",
                group,
            )
            .unwrap();
            assert!(selector.matches(&event), "{event}");
            let group = Selectable::Builtin { group: "events.k8s.io", kind: "Event" };
            assert!(
                FieldSelector::parse("regarding.name=a", group).unwrap().matches(&event),
                "{event}"
            );
        }
    }
}
