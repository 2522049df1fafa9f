//! Parses the path of a request: the object, collection or subresource that it names.

use percent_encoding::percent_decode_str;

/// The object, collection or subresource named by a path under `/api` or `/apis`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path requests a watch, as old clients do.
    pub(crate) watch: bool,
}

impl Address {
    /// Reads a path; `None` if it names no resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> =
            path.trim_matches('/').split('/').map(|part| unescape(part, false)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let base =
            Self { group: group.to_owned(), version: version.to_owned(), watch, ..Self::default() };
        base.resource(rest)
    }

    fn resource(self, rest: &[&str]) -> Option<Self> {
        let (namespace, rest) = match rest {
            // A namespace's own parts, not collections inside it.
            ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => {
                (None, rest)
            }
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        let owned = |s: Option<&str>| s.map(str::to_owned);
        let (name, subresource) = (owned(name), owned(subresource));
        (!plural.is_empty()).then(|| Self {
            namespace,
            plural: plural.to_owned(),
            name,
            subresource,
            ..self
        })
    }
}

/// Decodes percent-encoded text; in a query, `+` is a space.
pub(crate) fn unescape(text: &str, plus_is_space: bool) -> String {
    let spaced = if plus_is_space { text.replace('+', " ") } else { text.to_owned() };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_what_they_name_on_kubernetes() {
        let shown = |path: &str| {
            Address::parse(path).map(|a| {
                let part = |s: Option<String>| s.unwrap_or_else(|| "-".to_owned());
                let (ns, name, sub) = (part(a.namespace), part(a.name), part(a.subresource));
                format!("{}/{} {ns} {} {name} {sub}", a.group, a.version, a.plural)
            })
        };
        for (path, wanted) in [
            ("/api/v1/pods", Some("/v1 - pods - -")),
            ("/api/v1/namespaces/n/pods/p/status", Some("/v1 n pods p status")),
            ("/api/v1/namespaces", Some("/v1 - namespaces - -")),
            ("/api/v1/namespaces/n", Some("/v1 - namespaces n -")),
            ("/api/v1/namespaces/n/finalize", Some("/v1 - namespaces n finalize")),
            ("/apis/apps/v1/namespaces/n/deployments/d", Some("apps/v1 n deployments d -")),
            ("/apis/a.b/v1/nodes/x%3Ay", Some("a.b/v1 - nodes x:y -")),
            ("/apis/apps/v1", None),
            ("/version", None),
            ("/api/v1/namespaces/n/pods/p/a/b/c", None),
        ] {
            assert_eq!(shown(path).as_deref(), wanted, "{path}");
        }
        assert!(Address::parse("/api/v1/watch/pods").unwrap().watch);
    }

    #[test]
    fn escapes_are_decoded_and_broken_ones_kept() {
        for (text, wanted) in [("a%20b", "a b"), ("a+b", "a b"), ("%zz%", "%zz%"), ("%+1", "% 1")] {
            assert_eq!(unescape(text, true), wanted, "{text}");
        }
        assert_eq!(unescape("a+b", false), "a+b");
    }
}
