//! Taints and cordons of nodes. A node is written as a whole, with the version that was read: its rights need no more than an update.

use std::time::Duration;

use cluster::error::status_code;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};

/// How often a node is written that another client wrote in the meantime, and the pause in between.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(150);

/// The annotation of a node that was cordoned because it is being emptied, with the time.
pub(super) const CORDONED_ANNOTATION: &str = "plimsoll.dev/cordoned";

/// A change of a node's taints, or of its cordon.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaintChange {
    /// Cordons the node; a cordon that is there already stays as it is.
    Cordon { at: Timestamp },
    /// Takes a cordon of ours back.
    Uncordon,
    /// Adds a taint with the time as its value; an older one stays.
    Add { key: &'static str, effect: &'static str, at: Timestamp },
    /// Removes all taints with these keys.
    Remove(&'static [&'static str]),
}

impl TaintChange {
    /// Changes the taints; returns whether there was anything to change.
    fn apply(self, node: &mut Node) -> bool {
        let annotations = node.metadata.annotations.get_or_insert_default();
        let spec = node.spec.get_or_insert_default();
        let taints = spec.taints.get_or_insert_default();
        match self {
            Self::Cordon { at } => {
                if spec.unschedulable == Some(true) {
                    return false;
                }
                spec.unschedulable = Some(true);
                annotations.insert(CORDONED_ANNOTATION.to_owned(), format!("{at:.0}"));
                true
            }
            Self::Uncordon => {
                let is_ours = annotations.remove(CORDONED_ANNOTATION).is_some();
                if is_ours {
                    spec.unschedulable = None;
                }
                is_ours
            }
            Self::Add { key, effect, at } => {
                if taints.iter().any(|taint| taint.key == key) {
                    return false;
                }
                taints.push(Taint {
                    key: key.to_owned(),
                    value: Some(at.as_second().to_string()),
                    effect: effect.to_owned(),
                    time_added: None,
                });
                true
            }
            Self::Remove(keys) => {
                let before = taints.len();
                taints.retain(|taint| !keys.contains(&taint.key.as_str()));
                before != taints.len()
            }
        }
    }
}

/// Changes a node. A deleted one is no error.
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

/// Returns whether a node has a cordon of ours.
pub(super) fn is_cordoned(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(CORDONED_ANNOTATION))
}

/// Returns whether a node has a taint.
pub(super) fn has(node: &Node, key: &str) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == key)
}
