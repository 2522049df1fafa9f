//! A stand-in for the machines of a cloud: each instance has a Node, which is gone when the instance is.
//!
//! A KWOK controller or the embedded engine simulates the pods of these Nodes.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The machines, for as long as this lives.
pub(crate) struct Machines(#[expect(dead_code, reason = "it is kept running")] JoinSet<()>);

/// What the Nodes have in common: 4 cores, a label, and a taint like it.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) key: &'static str,
    pub(crate) value: String,
}

impl Machines {
    /// Follows the providerIDs that `instances` returns; `None` means that they could not be read.
    pub(crate) fn play(
        client: Client,
        shape: Shape,
        instances: impl Fn() -> BoxFuture<'static, Option<Vec<String>>> + Send + 'static,
    ) -> Self {
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                if let Some(ids) = instances().await {
                    // What fails now is done in the next round.
                    let _ = shape.follow(&client, &ids).await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self(task)
    }
}

impl Shape {
    /// Returns a Node.
    pub(crate) fn node(&self, name: &str, id: &str) -> Value {
        let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "50"});
        let now = Timestamp::now().to_string();
        json!({
            "metadata": {
                "name": name, "labels": {self.key: self.value, "plimsoll.dev/simulated": "true"},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": {
                "providerID": id,
                "taints": [{"key": self.key, "value": self.value, "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": amounts, "allocatable": amounts,
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady",
                    "lastHeartbeatTime": now, "lastTransitionTime": now,
                }],
            },
        })
    }

    async fn follow(&self, client: &Client, ids: &[String]) -> kube::Result<()> {
        let api: Api<Node> = Api::all(client.clone());
        let own = ListParams::default().labels(&format!("{}={}", self.key, self.value));
        let nodes = api.list(&own).await?.items;
        let id_of = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        let is_gone = |node: &&Node| id_of(node).is_none_or(|id| !ids.contains(&id));
        for node in nodes.iter().filter(is_gone) {
            api.delete(&node.name_any(), &DeleteParams::default()).await?;
        }
        let is_new = |id: &&String| !nodes.iter().any(|node| id_of(node).as_ref() == Some(id));
        for id in ids.iter().filter(is_new) {
            let name = id.rsplit('/').next().unwrap();
            let node = serde_json::from_value(self.node(name, id)).unwrap();
            api.create(&PostParams::default(), &node).await?;
        }
        Ok(())
    }
}
