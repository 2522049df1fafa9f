//! The settings of the connection: `spec.providers.clusterApi` of a NodeAutoscaler.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::objects::{Metadata, Scalable};
use crate::providers::NamedGroup;
use crate::secret::SecretRef;

/// The block `clusterApi` of a connection. A NodeAutoscaler has only `kubeconfigFrom` and `discover`. A drop-in for Cluster Autoscaler
/// fills `apiGroup`, `apiVersion` and `architecture` from `CAPI_GROUP`, `CAPI_VERSION` and `CAPI_SCALE_ZERO_DEFAULT_ARCH`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Settings {
    /// A kubeconfig of the management cluster; default: the cluster that Plimsoll runs on.
    pub(super) kubeconfig_from: Option<SecretRef>,
    /// Whether the kubeconfig may name files and start programs, as one that is given on a command line may.
    pub(super) trusted_kubeconfig: bool,
    /// Which objects are groups besides those that NodeGroups name: those that match one of these.
    pub(super) discover: Vec<Selector>,
    /// The API group of Machines. It is also the prefix of their annotations.
    pub(super) api_group: String,
    /// The version of the group; empty: the one that the management cluster prefers.
    pub(super) api_version: String,
    /// The architecture of a new node where nothing names it.
    pub(super) architecture: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kubeconfig_from: None,
            trusted_kubeconfig: false,
            discover: Vec::new(),
            api_group: "cluster.x-k8s.io".to_owned(),
            api_version: String::new(),
            architecture: "amd64".to_owned(),
        }
    }
}

/// An object is discovered if it matches everything that is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Selector {
    namespace: String,
    cluster_name: String,
    labels: BTreeMap<String, String>,
}

/// The namespaces to list objects in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Namespaces {
    All,
    Some(BTreeSet<String>),
}

impl Settings {
    /// Returns the key of an annotation or label of Cluster API.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.api_group)
    }

    /// Whether an object is discovered.
    pub(super) fn selects(&self, object: &Scalable) -> bool {
        let cluster = object.spec.cluster_name.as_deref();
        let metadata = &object.metadata;
        let cluster = cluster.or_else(|| metadata.label(&self.key("cluster-name")));
        self.discover.iter().any(|selector| selector.matches(metadata, cluster))
    }

    /// Returns the namespaces of all objects that may be groups.
    pub(super) fn namespaces(&self, named: &[NamedGroup]) -> Namespaces {
        let discovered = self.discover.iter().map(|selector| selector.namespace.as_str());
        let named = named.iter().filter_map(|group| group.id.split('/').nth(1));
        let all: BTreeSet<String> = discovered.chain(named).map(str::to_owned).collect();
        if all.contains("") { Namespaces::All } else { Namespaces::Some(all) }
    }
}

impl Selector {
    fn matches(&self, metadata: &Metadata, cluster: Option<&str>) -> bool {
        let is = |wanted: &str, found: Option<&str>| wanted.is_empty() || found == Some(wanted);
        is(&self.namespace, Some(&metadata.namespace))
            && is(&self.cluster_name, cluster)
            && self.labels.iter().all(|(key, value)| metadata.label(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(discover: Value) -> Settings {
        serde_json::from_value(json!({"discover": discover})).unwrap()
    }

    #[test]
    fn keys_of_an_entry_are_and_and_entries_are_or() {
        let object = |namespace: &str, cluster: Value, labels: Value| -> Scalable {
            let metadata = json!({"name": "m", "namespace": namespace, "labels": labels});
            let object = json!({"metadata": metadata, "spec": {"clusterName": cluster}});
            serde_json::from_value(object).unwrap()
        };
        let all = settings(json!([
            {"namespace": "a", "clusterName": "c"}, {"labels": {"pool": "x"}},
        ]));
        let labelled = json!({"cluster.x-k8s.io/cluster-name": "c"});
        for (namespace, cluster, labels, is_selected) in [
            ("a", json!("c"), json!({}), true),
            ("a", Value::Null, labelled, true),
            ("a", json!("d"), json!({}), false),
            ("b", json!("c"), json!({}), false),
            ("b", json!("d"), json!({"pool": "x"}), true),
        ] {
            let found = all.selects(&object(namespace, cluster.clone(), labels.clone()));
            assert_eq!(found, is_selected, "{namespace} {cluster} {labels}");
        }
        let object = object("a", json!("c"), json!({}));
        assert!(settings(json!([{}])).selects(&object), "an empty entry selects everything");
        assert!(!settings(json!([])).selects(&object), "nothing is discovered by default");
    }

    #[test]
    fn only_namespaces_that_can_have_groups_are_listed() {
        let some = |names: &[&str]| Namespaces::Some(names.iter().map(|&n| n.to_owned()).collect());
        let named = |id: &str| NamedGroup { id: id.to_owned(), settings: Value::Null };
        let of = |discover, named: &[NamedGroup]| settings(discover).namespaces(named);
        assert_eq!(of(json!([]), &[named("MachineSet/x/m")]), some(&["x"]));
        let two = json!([{"namespace": "a"}, {"namespace": "b", "clusterName": "c"}]);
        assert_eq!(of(two, &[named("MachinePool/x/m")]), some(&["a", "b", "x"]));
        assert_eq!(of(json!([{"namespace": "a"}, {"clusterName": "c"}]), &[]), Namespaces::All);
    }
}
