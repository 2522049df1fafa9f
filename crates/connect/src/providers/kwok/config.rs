//! The settings of Cluster Autoscaler's provider `kwok`, and the groups of its template nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::Value;

/// The annotations of a template with the bounds of its group.
const MIN_COUNT: &str = "cluster-autoscaler.kwok.nodegroup/min-count";
const MAX_COUNT: &str = "cluster-autoscaler.kwok.nodegroup/max-count";
/// The bounds of a group whose template names none.
const DEFAULT_BOUNDS: (u32, u32) = (0, 200);

/// The content of the ConfigMap. Unknown keys are ignored, as in Cluster Autoscaler.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KwokConfig {
    read_nodes_from: String,
    nodegroups: GroupKeys,
    pub(super) nodes: NodeSettings,
    configmap: TemplatesMap,
}

/// Where a node names its group.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupKeys {
    from_node_label_key: String,
    from_node_annotation_key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSettings {
    /// Whether new nodes are without the taint of the provider.
    pub(super) skip_taint: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TemplatesMap {
    name: String,
}

/// A group, and the node that new ones are made from.
#[derive(Debug)]
pub(super) struct TemplateGroup {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) node: Node,
}

impl KwokConfig {
    /// Reads the settings from YAML.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let config: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let GroupKeys { from_node_label_key: label, from_node_annotation_key: annotation } =
            &config.nodegroups;
        if label.is_empty() == annotation.is_empty() {
            return Err(
                "nodegroups: expected either fromNodeLabelKey or fromNodeAnnotationKey".to_owned()
            );
        }
        match config.read_nodes_from.as_str() {
            "configmap" if config.configmap.name.is_empty() => {
                Err("configmap.name is missing".to_owned())
            }
            "configmap" | "cluster" => Ok(config),
            other => Err(format!("readNodesFrom: `{other}` is not configmap or cluster")),
        }
    }

    /// Returns the ConfigMap with the templates; `None`: the nodes of the cluster are the templates.
    pub(super) fn templates_map(&self) -> Option<&str> {
        (self.read_nodes_from == "configmap").then_some(self.configmap.name.as_str())
    }

    /// Returns the group that a node names.
    pub(super) fn group_of<'a>(&self, node: &'a Node) -> Option<&'a str> {
        let keys = &self.nodegroups;
        let value = match keys.from_node_label_key.as_str() {
            "" => node.annotations().get(&keys.from_node_annotation_key),
            label => node.labels().get(label),
        };
        value.map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// Reads nodes from YAML: a List, or several documents.
pub(super) fn nodes(text: &str) -> Result<Vec<Node>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let objects = documents.into_iter().flat_map(|mut document| {
        let items = document.get_mut("items").map(Value::take);
        if let Some(Value::Array(items)) = items { items } else { vec![document] }
    });
    let objects = objects.filter(|object| !object.is_null());
    let read = |object| serde_json::from_value(object).map_err(|error| format!("a node: {error}"));
    objects.map(read).collect()
}

/// Returns the groups of template nodes; the first node of a group is its template.
pub(super) fn groups(
    config: &KwokConfig,
    nodes: Vec<Node>,
) -> Result<BTreeMap<String, TemplateGroup>, String> {
    let mut groups = BTreeMap::new();
    for node in nodes {
        let Some(name) = config.group_of(&node).map(str::to_owned) else { continue };
        if groups.contains_key(&name) {
            continue;
        }
        let (min, max) = DEFAULT_BOUNDS;
        let (min, max) = (bound(&node, MIN_COUNT, min)?, bound(&node, MAX_COUNT, max)?);
        if min > max {
            return Err(format!("group `{name}`: min-count {min} is greater than max-count {max}"));
        }
        groups.insert(name, TemplateGroup { min, max, node });
    }
    Ok(groups)
}

fn bound(node: &Node, key: &str, default: u32) -> Result<u32, String> {
    let Some(text) = node.annotations().get(key) else { return Ok(default) };
    let wrong = |_| format!("node {}: {key}: `{text}` is not a number", node.name_any());
    text.parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: v1alpha1\nreadNodesFrom: configmap\nnodegroups: {fromNodeLabelKey: pool}\n\
        configmap: {name: t}\nkwok: {}\n";

    #[test]
    fn settings_name_the_group_of_a_node_by_one_key() {
        let config = KwokConfig::parse(CONFIG).unwrap();
        assert_eq!(config.templates_map(), Some("t"));
        for (text, wanted) in [
            ("readNodesFrom: cluster\n", "nodegroups: expected either"),
            (
                "readNodesFrom: cluster\nnodegroups: {fromNodeLabelKey: a, fromNodeAnnotationKey: b}\n",
                "nodegroups: expected either",
            ),
            (
                "readNodesFrom: configmap\nnodegroups: {fromNodeLabelKey: a}\n",
                "configmap.name is missing",
            ),
            (
                "readNodesFrom: file\nnodegroups: {fromNodeLabelKey: a}\n",
                "readNodesFrom: `file` is not configmap or cluster",
            ),
        ] {
            let problem = KwokConfig::parse(text).unwrap_err();
            assert!(problem.contains(wanted), "{problem}");
        }
        let cluster = "readNodesFrom: cluster\nnodegroups: {fromNodeAnnotationKey: a}\n";
        assert_eq!(KwokConfig::parse(cluster).unwrap().templates_map(), None);
    }

    #[test]
    fn templates_are_a_list_or_documents() {
        let node = |name: &str, pool: &str, annotations: &str| {
            format!(
                "metadata: {{name: {name}, labels: {{pool: {pool}}}, annotations: {{{annotations}}}}}"
            )
        };
        let bounds = "cluster-autoscaler.kwok.nodegroup/min-count: \"1\", cluster-autoscaler.kwok.nodegroup/max-count: \"5\"";
        let (a, b, c) = (node("a", "one", bounds), node("b", "one", ""), node("c", "two", ""));
        let documents = format!("---\n{a}\n---\n{b}\n---\n{c}\n---\nmetadata: {{name: d}}\n");
        let list = format!("kind: List\nitems:\n- {a}\n- {b}\n- {c}\n");
        for text in [documents, list] {
            let config = KwokConfig::parse(CONFIG).unwrap();
            let groups = groups(&config, nodes(&text).unwrap()).unwrap();
            let found: Vec<(&str, u32, u32, String)> = groups
                .iter()
                .map(|(name, group)| (name.as_str(), group.min, group.max, group.node.name_any()))
                .collect();
            assert_eq!(found, [("one", 1, 5, "a".to_owned()), ("two", 0, 200, "c".to_owned())]);
        }
    }

    #[test]
    fn bounds_that_cannot_be_are_refused() {
        for (bounds, wanted) in [
            ("min-count: many", "min-count: `many` is not a number"),
            ("min-count: \"201\"", "group `one`: min-count 201 is greater than max-count 200"),
        ] {
            let text = format!(
                "metadata: {{name: a, labels: {{pool: one}}, annotations: {{cluster-autoscaler.kwok.nodegroup/{bounds}}}}}"
            );
            let config = KwokConfig::parse(CONFIG).unwrap();
            let problem = groups(&config, nodes(&text).unwrap()).unwrap_err();
            assert!(problem.contains(wanted), "{problem}");
        }
    }
}
