//! The kinds that an API server serves, from its discovery documents.

use kube::Client;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery};
use kube::core::{ApiResource, DynamicObject, Resource as _};

/// A served kind.
#[derive(Clone, Debug)]
pub(crate) struct ServedKind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    can_list: bool,
}

impl ServedKind {
    /// Returns the name with the group, such as `fleet.agones.dev`.
    pub(crate) fn qualified_name(&self) -> String {
        with_group(&self.resource.kind.to_lowercase(), &self.resource.group)
    }

    /// Returns the plural with the group, such as `fleets.agones.dev`.
    pub(crate) fn qualified_plural(&self) -> String {
        with_group(&self.resource.plural, &self.resource.group)
    }

    /// Returns the path of the kind's objects in a namespace; `None` for all namespaces and cluster-scoped kinds.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        DynamicObject::url_path(&self.resource, namespace.filter(|_| self.is_namespaced))
    }

    /// Whether this is the kind's plural, singular or kind, in lower case.
    fn has_name(&self, name: &str) -> bool {
        self.resource.plural == name
            || self.singular == name
            || self.resource.kind.to_lowercase() == name
    }

    /// Whether this is the kind's group, or its version and group, as in `pods.v1` and `fleets.v1.agones.dev`.
    fn is_in(&self, qualifier: &str) -> bool {
        let ApiResource { group, version, .. } = &self.resource;
        let after_version = qualifier.strip_prefix(version.as_str());
        qualifier == group
            || after_version
                .is_some_and(|rest| rest.strip_prefix('.').unwrap_or(rest) == group.as_str())
    }
}

fn with_group(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// All served kinds, preferred groups and versions first.
#[derive(Debug)]
pub(crate) struct ServedKinds(Vec<ServedKind>);

impl ServedKinds {
    /// Requests the aggregated discovery documents.
    pub(crate) async fn discover(client: &Client) -> Result<Self, kube::Error> {
        let core = client.list_core_api_versions_aggregated().await?;
        let groups = client.list_api_groups_aggregated().await?;
        Ok(Self([core, groups].into_iter().flat_map(kinds).collect()))
    }

    /// Returns whether the server has no aggregated discovery documents, as before Kubernetes 1.26.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the kind of an object.
    pub(crate) fn of_object(&self, api_version: &str, kind: &str) -> Option<&ServedKind> {
        self.0.iter().find(|k| k.resource.api_version == api_version && k.resource.kind == kind)
    }

    /// Finds a kind by its name (also with its group, or version and group) or short name, or the kinds of a category.
    pub(crate) fn named(&self, word: &str) -> Vec<&ServedKind> {
        let word = word.to_lowercase();
        let (name, qualifier) = word.split_once('.').unwrap_or((&word, ""));
        let mut candidates = self.0.iter().filter(|k| qualifier.is_empty() || k.is_in(qualifier));
        if let Some(found) = candidates.clone().find(|k| k.has_name(name)) {
            return vec![found];
        }
        let has_short = |k: &&ServedKind| k.short_names.iter().any(|short| short == name);
        if let Some(found) = candidates.find(has_short) {
            return vec![found];
        }
        self.category(&word)
    }

    /// Returns the kinds of a category, each in its preferred version.
    fn category(&self, name: &str) -> Vec<&ServedKind> {
        let mut found: Vec<&ServedKind> = Vec::new();
        for kind in &self.0 {
            let is_same = |other: &&ServedKind| {
                (&other.resource.group, &other.resource.plural)
                    == (&kind.resource.group, &kind.resource.plural)
            };
            let is_member = kind.can_list && kind.categories.iter().any(|c| c == name);
            if is_member && !found.iter().any(is_same) {
                found.push(kind);
            }
        }
        found
    }
}

fn kinds(document: APIGroupDiscoveryList) -> Vec<ServedKind> {
    let mut kinds = Vec::new();
    for group in document.items {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            let served = version.resources.into_iter();
            kinds.extend(served.filter_map(|resource| kind(&name, &number, resource)));
        }
    }
    kinds
}

fn kind(group: &str, version: &str, served: APIResourceDiscovery) -> Option<ServedKind> {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: served.response_kind?.kind?,
        plural: served.resource?,
    };
    Some(ServedKind {
        resource,
        is_namespaced: served.scope.as_deref() == Some("Namespaced"),
        singular: served.singular_resource.unwrap_or_default(),
        short_names: served.short_names,
        categories: served.categories,
        can_list: served.verbs.iter().any(|verb| verb == "list"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served() -> ServedKinds {
        let resource = |plural: &str, kind: &str, short: &str| {
            json!({
                "resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"],
                "singularResource": kind.to_lowercase(), "shortNames": [short], "categories": ["all"],
            })
        };
        let group = |name: &str, version: &str, resources: serde_json::Value| json!({"metadata": {"name": name}, "versions": [{"version": version, "resources": resources}]});
        let document = json!({"items": [
            group("", "v1", json!([resource("pods", "Pod", "po"), resource("events", "Event", "ev")])),
            group("agones.dev", "v1", json!([resource("fleets", "Fleet", "flt")])),
            group("events.k8s.io", "v1", json!([resource("events", "Event", "ev")])),
        ]});
        ServedKinds(kinds(serde_json::from_value(document).unwrap()))
    }

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        let served = served();
        for (word, found) in [
            ("po", "pod"),
            ("pods", "pod"),
            ("pod", "pod"),
            ("Pod", "pod"),
            ("pods.v1", "pod"),
            ("ev", "event"),
            ("events", "event"),
            ("events.events.k8s.io", "event.events.k8s.io"),
            ("ev.v1.events.k8s.io", "event.events.k8s.io"),
            ("fleet", "fleet.agones.dev"),
            ("flt", "fleet.agones.dev"),
            ("fleets.agones.dev", "fleet.agones.dev"),
        ] {
            let names: Vec<String> =
                served.named(word).iter().map(|kind| kind.qualified_name()).collect();
            assert_eq!(names, [found], "{word}");
        }
        for word in ["", "pods.agones.dev", "podz", "fleets.v2.agones.dev"] {
            assert!(served.named(word).is_empty(), "{word}");
        }
    }

    #[test]
    fn a_category_stands_for_all_of_its_kinds() {
        let names: Vec<String> =
            served().named("all").iter().map(|kind| kind.qualified_plural()).collect();
        assert_eq!(names, ["pods", "events", "fleets.agones.dev", "events.events.k8s.io"]);
    }
}
