//! Taints on nodes, and the cordon of a node that is being removed. A node is written as a whole, with the version that was read: its
//! rights need no more than an update.

use std::time::Duration;

use cluster::error::status_code;
use decide::nodes::{DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};

/// How often a node is written that another client wrote in the meantime, and the pause in between.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(150);
/// Whether the node was cordoned for its removal: `false` where it was cordoned before. Cluster Autoscaler has no such annotation.
const CORDONED: &str = "plimsoll.dev/cordoned";

/// A change of a node's taints.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaintChange {
    /// Begins a removal: adds the hard taint with the time as its value; an older one stays. Cordons the node, if asked to.
    Begin { cordon: bool, at: Timestamp },
    /// Ends a removal that failed: removes all taints of removals and the cordon. `foreign_cordon`: also that of a Cluster Autoscaler.
    Abort { foreign_cordon: bool },
    /// Adds the soft taint of an unneeded node.
    Mark { at: Timestamp },
    /// Removes the soft taint.
    Unmark,
}

impl TaintChange {
    /// Changes the node; returns whether there was anything to change.
    fn apply(self, node: &mut Node) -> bool {
        let before = node.clone();
        let spec = node.spec.get_or_insert_default();
        match self {
            Self::Begin { cordon, at } => {
                add(spec, TO_BE_DELETED_TAINT, "NoSchedule", at);
                let is_new = cordon && spec.unschedulable != Some(true);
                if is_new {
                    spec.unschedulable = Some(true);
                }
                let annotations = node.metadata.annotations.get_or_insert_default();
                annotations.entry(CORDONED.to_owned()).or_insert_with(|| is_new.to_string());
            }
            Self::Abort { foreign_cordon } => {
                let had_taint = remove(spec, TO_BE_DELETED_TAINT);
                remove(spec, DELETION_CANDIDATE_TAINT);
                let annotations = node.metadata.annotations.as_mut();
                let is_ours = match annotations.and_then(|all| all.remove(CORDONED)) {
                    Some(text) => text == "true",
                    None => had_taint && foreign_cordon,
                };
                if is_ours && spec.unschedulable == Some(true) {
                    spec.unschedulable = None;
                }
            }
            Self::Mark { at } => add(spec, DELETION_CANDIDATE_TAINT, "PreferNoSchedule", at),
            Self::Unmark => drop(remove(spec, DELETION_CANDIDATE_TAINT)),
        }
        *node != before
    }
}

fn add(spec: &mut NodeSpec, key: &str, effect: &str, at: Timestamp) {
    let taints = spec.taints.get_or_insert_default();
    if !taints.iter().any(|taint| taint.key == key) {
        let (key, value) = (key.to_owned(), Some(at.as_second().to_string()));
        taints.push(Taint { key, value, effect: effect.to_owned(), time_added: None });
    }
}

/// Removes all taints with a key; returns whether there were any.
fn remove(spec: &mut NodeSpec, key: &str) -> bool {
    let Some(taints) = &mut spec.taints else { return false };
    let before = taints.len();
    taints.retain(|taint| taint.key != key);
    before != taints.len()
}

/// Changes the taints of a node. A deleted node is no error.
pub(super) async fn change(
    client: &Client,
    name: &str,
    change: TaintChange,
) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    let mut tries = 0;
    loop {
        tries += 1;
        let outcome = async {
            let Some(mut node) = api.get_opt(name).await? else { return Ok(()) };
            if !change.apply(&mut node) {
                return Ok(());
            }
            api.replace(&node.name_any(), &PostParams::default(), &node).await.map(drop)
        };
        match outcome.await {
            Ok(()) => return Ok(()),
            Err(error) if status_code(&error) == Some(404) => return Ok(()),
            Err(error) if tries >= TRIES => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE * tries).await,
        }
    }
}

/// Returns whether a node has a taint.
pub(super) fn has(node: &Node, key: &str) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == key)
}

/// Returns whether a removal has begun on a node and not ended, whoever began it.
pub(super) fn is_being_removed(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    has(node, TO_BE_DELETED_TAINT) || annotations.is_some_and(|all| all.contains_key(CORDONED))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The keys of the taints, whether the node is cordoned, and the annotation.
    fn state(node: &Node) -> (Vec<&str>, bool, Option<&str>) {
        let spec = node.spec.as_ref().unwrap();
        let taints = spec.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
        let annotations = node.metadata.annotations.as_ref();
        let cordoned = annotations.and_then(|all| all.get(CORDONED)).map(String::as_str);
        (taints, spec.unschedulable == Some(true), cordoned)
    }

    fn node(spec: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_removal_that_fails_leaves_the_node_as_it_was() {
        let at = Timestamp::UNIX_EPOCH;
        for (was_cordoned, cordon, during, annotation) in [
            (false, true, true, "true"),
            (true, true, true, "false"),
            (false, false, false, "false"),
            (true, false, true, "false"),
        ] {
            let mut node = node(json!({"unschedulable": was_cordoned}));
            assert!(TaintChange::Mark { at }.apply(&mut node));
            assert!(TaintChange::Begin { cordon, at }.apply(&mut node));
            assert!(!TaintChange::Begin { cordon, at }.apply(&mut node), "it is safe to repeat");
            let taints = vec![DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT];
            assert_eq!(state(&node), (taints, during, Some(annotation)));
            assert!(TaintChange::Abort { foreign_cordon: cordon }.apply(&mut node));
            assert!(!TaintChange::Abort { foreign_cordon: cordon }.apply(&mut node));
            assert_eq!(state(&node), (Vec::new(), was_cordoned, None));
        }
    }

    #[test]
    fn the_cordon_of_a_cluster_autoscaler_goes_with_its_taint() {
        let taint = json!([{"key": TO_BE_DELETED_TAINT, "value": "1", "effect": "NoSchedule"}]);
        for (taints, foreign_cordon, is_cordoned) in
            [(taint.clone(), true, false), (taint, false, true), (json!([]), true, true)]
        {
            let mut node = node(json!({"unschedulable": true, "taints": taints}));
            TaintChange::Abort { foreign_cordon }.apply(&mut node);
            assert_eq!(state(&node), (Vec::new(), is_cordoned, None), "{taints} {foreign_cordon}");
        }
    }
}
