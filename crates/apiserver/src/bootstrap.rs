//! The objects that every new cluster has: namespaces, the `kubernetes` Service and the system PriorityClasses.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::access::KUBERNETES_SERVICE;
use crate::core::Core;
use crate::rest::internal;

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

const PRIORITIES: [(&str, u32, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Creates the objects that are missing.
pub(crate) async fn run(core: &Arc<Core>) -> Result<(), String> {
    for name in NAMESPACES {
        make(core, ("", "v1", "namespaces"), None, json!({"metadata": {"name": name}})).await?;
    }
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443});
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "clusterIP": KUBERNETES_SERVICE, "clusterIPs": [KUBERNETES_SERVICE], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [port],
        },
    });
    make(core, ("", "v1", "services"), Some("default"), service).await?;
    for (name, value, what) in PRIORITIES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": what});
        make(core, ("scheduling.k8s.io", "v1", "priorityclasses"), None, class).await?;
    }
    Ok(())
}

async fn make(
    core: &Arc<Core>,
    (group, version, plural): (&str, &str, &str),
    namespace: Option<&str>,
    object: Value,
) -> Result<(), String> {
    let served = core.registry.served();
    let resource =
        served.find(group, version, plural).ok_or_else(|| format!("{plural} are not served"))?;
    let key = resource.key(namespace, object["metadata"]["name"].as_str().unwrap_or_default());
    if core.store.get(&resource.storage, &key).is_none() {
        internal::create(core, resource, namespace, "kube-apiserver", object).await;
        core.store
            .get(&resource.storage, &key)
            .ok_or_else(|| format!("{plural} {key} could not be created"))?;
    }
    Ok(())
}
