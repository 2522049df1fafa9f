//! Which group is a node in? The one whose provider lists its providerID; the nodes of simulated groups name theirs in a label.

use std::collections::{BTreeSet, HashMap};

use decide::nodes::GROUP_LABEL;
use k8s_openapi::api::core::v1::Node;

/// What the group of a node is found by.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// The groups that the label of a node counts for.
    labelled: BTreeSet<String>,
    /// The group of each instance.
    by_instance: HashMap<String, String>,
}

impl Membership {
    /// Adds a group whose nodes name it in their label.
    pub(super) fn add_labelled(&mut self, group: &str) {
        self.labelled.insert(group.to_owned());
    }

    /// Adds the instances of a group.
    pub(super) fn add_instances<'a>(
        &mut self,
        group: &str,
        ids: impl IntoIterator<Item = &'a String>,
    ) {
        self.by_instance.extend(ids.into_iter().map(|id| (id.clone(), group.to_owned())));
    }

    /// Returns the group of a node. A node without one is unmanaged, and is not changed.
    pub(super) fn group_of<'a>(&'a self, node: &'a Node) -> Option<&'a str> {
        let labels = node.metadata.labels.as_ref();
        let label = labels.and_then(|all| all.get(GROUP_LABEL));
        if let Some(name) = label.filter(|name| self.labelled.contains(*name)) {
            return Some(name);
        }
        let id = node.spec.as_ref()?.provider_id.as_ref()?;
        self.by_instance.get(id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_in_the_group_that_lists_its_id_and_a_label_counts_for_simulated_groups_only() {
        let mut membership = Membership::default();
        membership.add_labelled("simulated");
        membership.add_instances("cloud", &["aws:///a/i-1".to_owned()]);
        for (label, id, group) in [
            (None, Some("aws:///a/i-1"), Some("cloud")),
            (None, Some("aws:///a/i-2"), None),
            (Some("simulated"), None, Some("simulated")),
            (Some("cloud"), Some("aws:///a/i-2"), None),
            (Some("gone"), Some("aws:///a/i-1"), Some("cloud")),
            (None, None, None),
        ] {
            let node = json!({
                "metadata": {"name": "n", "labels": label.map(|name| json!({GROUP_LABEL: name}))},
                "spec": {"providerID": id},
            });
            let node = serde_json::from_value(node).unwrap();
            assert_eq!(membership.group_of(&node), group, "{label:?} {id:?}");
        }
    }
}
