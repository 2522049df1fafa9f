//! The objects of the bench.

use anyhow::Context as _;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

/// A group of nodes, which the pods of one kind of step are for.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// The value of the label that pods select.
    pool: &'static str,
    pub(super) cpu: u64,
}

pub(super) const POOL: Group = Group { name: "pool", pool: "pool", cpu: 10 };
pub(super) const SMALL: Group = Group { name: "small", pool: "packing", cpu: 4 };
pub(super) const LARGE: Group = Group { name: "large", pool: "packing", cpu: 16 };
/// Its nodes are created by the bench.
pub(super) const IDLE: Group = Group { name: "idle", pool: "idle", cpu: 10 };

impl Group {
    /// Returns the NodeGroup, whose machines start at once.
    pub(super) fn object(&self, provider: &str) -> Value {
        let cpu = self.cpu.to_string();
        json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": self.name},
            "spec": {
                "max": 1000, "provider": {provider: {"startAfter": "0s"}},
                "template": {
                    "labels": {"bench": self.pool},
                    "capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                },
            },
        })
    }

    /// Selects its nodes.
    pub(super) fn nodes(&self) -> ListParams {
        ListParams::default().labels(&format!("plimsoll.dev/node-group={}", self.name))
    }
}

pub(super) fn autoscaler(spec: Value) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler", "metadata": {"name": "default"}, "spec": spec,
    })
}

/// Creates or replaces the specification of an object of ours.
pub(super) async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let kind = object["kind"].as_str().context("a kind")?;
    let gvk = GroupVersionKind::gvk("plimsoll.dev", "v1alpha1", kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    let name = object["metadata"]["name"].as_str().context("a name")?;
    api.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// Returns a pod that fits only nodes of a pool.
pub(super) fn pod(name: &str, group: &Group, cpu: &str) -> serde_json::Result<Pod> {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0, "nodeSelector": {"bench": group.pool},
            "containers": [{
                "name": "main", "image": "web", "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
            }],
        },
    }))
}

/// Returns a small pod that is bound to a node.
pub(super) fn bound_pod(index: usize, node: &str) -> serde_json::Result<Pod> {
    let mut pod = pod(&format!("idle-{index}"), &IDLE, "200m")?;
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    Ok(pod)
}

/// Returns a node of the idle group as its provider would create it.
pub(super) fn node(name: &str, provider: &str) -> serde_json::Result<Node> {
    let capacity = json!({"cpu": "10", "memory": "64Gi", "pods": "110"});
    let mut labels = json!({
        "bench": IDLE.pool, "kubernetes.io/hostname": name, "plimsoll.dev/node-group": IDLE.name,
    });
    let mut annotations = json!({});
    if provider == "kwok" {
        annotations["kwok.x-k8s.io/node"] = json!("fake");
    } else {
        labels["plimsoll.dev/simulated"] = json!("true");
    }
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": format!("{provider}://{name}")},
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }))
}

/// Watches the nodes of a group that are created from now on.
pub(super) async fn watch_new(
    nodes: &Api<Node>,
    group: &Group,
) -> anyhow::Result<impl Stream<Item = ()>> {
    let version = nodes.list_metadata(&group.nodes()).await?.metadata.resource_version;
    let labels = format!("plimsoll.dev/node-group={}", group.name);
    let params = WatchParams::default().labels(&labels);
    let events = nodes.watch(&params, version.as_deref().unwrap_or("0")).await?;
    Ok(events
        .filter_map(|event| async move { matches!(event, Ok(WatchEvent::Added(_))).then_some(()) }))
}
