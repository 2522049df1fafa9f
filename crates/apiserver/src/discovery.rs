//! Discovery: the served groups, versions and resources.
//!
//! As one document per group and version, and as the aggregated document that current clients request.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::delegate::Delegates;
use apimachinery::resource::{Resource, ServedResources, Subresource, api_version};

/// The groups that kube-apiserver lists first, in its order.
const FIRST: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
];

/// A delegated group and version, with its resources.
pub(crate) struct Delegated {
    group: String,
    version: String,
    /// Its `APIResourceList`.
    list: Value,
}

/// Fetches the resources of all delegated groups.
pub(crate) async fn delegated(delegates: &Delegates) -> Vec<Delegated> {
    let mut all = Vec::new();
    for (group, version) in delegates.list() {
        let path = format!("/apis/{group}/{version}");
        let list = delegates.discover(&path).await.unwrap_or_default();
        all.push(Delegated { group, version, list });
    }
    all
}

impl Delegated {
    fn aggregated(&self) -> Value {
        let resources = self.list["resources"].as_array().into_iter().flatten();
        let resources: Vec<Value> = resources
            .filter(|r| r["name"].as_str().is_some_and(|n| !n.contains('/')))
            .map(|r| {
                let scope = if r["namespaced"] == true { "Namespaced" } else { "Cluster" };
                let mut entry = json!({"resource": r["name"], "scope": scope, "verbs": r["verbs"],
                    "singularResource": r["singularName"],
                    "responseKind": {"group": "", "version": "", "kind": r["kind"]}});
                for field in ["shortNames", "categories"] {
                    if let Some(value) = r.get(field) {
                        entry[field] = value.clone();
                    }
                }
                entry
            })
            .collect();
        json!({"version": self.version, "resources": resources, "freshness": "Current"})
    }
}

/// Returns the discovery document at a path, if there is one.
pub(crate) fn document(
    served: &ServedResources,
    delegated: &[Delegated],
    path: &str,
    host: &str,
) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]})),
        ["apis"] => {
            let groups = groups(served, delegated)
                .into_iter()
                .map(|(name, versions)| group(&name, &versions));
            let groups: Vec<Value> = groups.collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let (_, versions) = groups(served, delegated).into_iter().find(|(g, _)| g == name)?;
            let mut group = group(name, &versions);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            Some(group)
        }
        ["api", version] => resources(served, "", version),
        ["apis", group, version] => resources(served, group, version),
        _ => None,
    }
}

/// Returns the aggregated document of `/api` or `/apis`; `version` is the document's: `v2` or `v2beta1`.
pub(crate) fn aggregated(
    served: &ServedResources,
    delegated: &[Delegated],
    path: &str,
    version: &str,
) -> Value {
    let is_core = path.trim_matches('/') == "api";
    let all = if is_core {
        vec![(String::new(), vec!["v1".to_owned()])]
    } else {
        groups(served, delegated)
    };
    let items: Vec<Value> = all
        .iter()
        .map(|(group, versions)| {
            let meta = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            let versions: Vec<Value> = versions
                .iter()
                .map(|v| match delegated.iter().find(|d| d.group == *group && d.version == *v) {
                    Some(delegated) => delegated.aggregated(),
                    None => aggregated_version(served, group, v),
                })
                .collect();
            json!({"metadata": meta, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items})
}

/// Returns the groups with their versions in order of preference.
fn groups(served: &ServedResources, delegated: &[Delegated]) -> Vec<(String, Vec<String>)> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((group, version), _) in served.iter().filter(|((group, _), _)| !group.is_empty()) {
        groups.entry(group).or_default().push(version.clone());
    }
    for other in delegated {
        let versions = groups.entry(&other.group).or_default();
        if !versions.contains(&other.version) {
            versions.push(other.version.clone());
        }
    }
    let mut groups: Vec<(String, Vec<String>)> =
        groups.into_iter().map(|(name, versions)| (name.to_owned(), versions)).collect();
    for (_, versions) in &mut groups {
        versions.sort_by_key(|v| Reverse(preference(v)));
    }
    groups.sort_by_key(|(name, _)| FIRST.iter().position(|f| f == name).unwrap_or(usize::MAX));
    groups
}

/// Returns the preference of a version: stable before beta before alpha, then the higher number; anything else last.
fn preference(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse::<u64>().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            beta if beta.starts_with("beta") => Some((2, major, beta[4..].parse().ok()?)),
            alpha if alpha.starts_with("alpha") => Some((1, major, alpha[5..].parse().ok()?)),
            _ => None,
        }
    };
    parse().unwrap_or((0, 0, 0))
}

fn group(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resources(served: &ServedResources, group: &str, version: &str) -> Option<Value> {
    let (_, found) = served.iter().find(|((g, v), _)| g == group && v == version)?;
    let mut list = Vec::new();
    for resource in found {
        let mut entry = json!({"name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
        add_names(resource, &mut entry);
        list.push(entry);
        for sub in sorted(resource) {
            let mut entry = json!({"name": format!("{}/{}", resource.plural, sub.name()), "singularName": "",
                "namespaced": resource.namespaced, "kind": resource.kind, "verbs": sub.verbs()});
            if let Some((group, version, kind)) = response_kind(sub) {
                if !group.is_empty() {
                    entry["group"] = group.into();
                    entry["version"] = version.into();
                }
                entry["kind"] = kind.into();
            }
            list.push(entry);
        }
    }
    let mut document = json!({"kind": "APIResourceList", "groupVersion": api_version(group, version), "resources": list});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

fn add_names(resource: &Resource, entry: &mut Value) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
}

fn sorted(resource: &Resource) -> Vec<Subresource> {
    let mut subresources = resource.subresources.clone();
    subresources.sort_by_key(|s| s.name());
    subresources
}

/// Returns the kind of a subresource, where it differs from its resource's.
fn response_kind(subresource: Subresource) -> Option<(&'static str, &'static str, &'static str)> {
    match subresource {
        Subresource::Scale => Some(("autoscaling", "v1", "Scale")),
        Subresource::Eviction => Some(("policy", "v1", "Eviction")),
        Subresource::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        Subresource::Binding => Some(("", "v1", "Binding")),
        Subresource::Exec => Some(("", "v1", "PodExecOptions")),
        Subresource::Attach => Some(("", "v1", "PodAttachOptions")),
        Subresource::PortForward => Some(("", "v1", "PodPortForwardOptions")),
        Subresource::Status
        | Subresource::Finalize
        | Subresource::Approval
        | Subresource::EphemeralContainers
        | Subresource::Resize
        | Subresource::Log => None,
    }
}

fn aggregated_version(served: &ServedResources, group: &str, version: &str) -> Value {
    let found = served.iter().find(|((g, v), _)| g == group && v == version);
    let resources: Vec<Value> = found
        .into_iter()
        .flat_map(|(_, resources)| resources)
        .map(|resource| {
            let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
            let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
            let mut entry = json!({"resource": resource.plural, "responseKind": kind(&resource.kind), "scope": scope,
                "singularResource": resource.singular, "verbs": resource.verbs});
            add_names(resource, &mut entry);
            let subresources: Vec<Value> = sorted(resource)
                .into_iter()
                .map(|sub| {
                    let response = response_kind(sub).map(
                        |(group, version, kind)| json!({"group": group, "version": version, "kind": kind}),
                    );
                    json!({"subresource": sub.name(), "verbs": sub.verbs(),
                        "responseKind": response.unwrap_or_else(|| kind(&resource.kind))})
                })
                .collect();
            if !subresources.is_empty() {
                entry["subresources"] = subresources.into();
            }
            entry
        })
        .collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::resource::Registry;

    #[test]
    fn groups_versions_and_resources_are_listed() {
        let served = Registry::built_in().served();
        let groups = document(&served, &[], "/apis", "h").unwrap();
        assert_eq!(groups["groups"][1]["name"], "apps");
        let autoscaling = document(&served, &[], "/apis/autoscaling", "h").unwrap();
        assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
        let core = document(&served, &[], "/api/v1", "h").unwrap();
        let names =
            core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap());
        assert!(names.collect::<Vec<_>>().contains(&"pods/eviction"));
        assert!(document(&served, &[], "/apis/nope.io", "h").is_none());
    }

    #[test]
    fn the_aggregated_document_has_all_groups() {
        let served = Registry::built_in().served();
        let all = aggregated(&served, &[], "/apis", "v2");
        let apps = all["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|g| g["metadata"]["name"] == "apps")
            .unwrap();
        let deployments = &apps["versions"][0]["resources"][2];
        assert_eq!(deployments["resource"], "deployments");
        assert_eq!(deployments["subresources"][0]["responseKind"]["kind"], "Scale");
    }

    #[test]
    fn stable_versions_come_before_others() {
        let mut versions = ["v1alpha1", "foo", "v1", "v2beta1", "v10", "v2"];
        versions.sort_by_key(|v| Reverse(preference(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1alpha1", "foo"]);
    }
}
