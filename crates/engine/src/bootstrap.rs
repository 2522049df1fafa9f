//! What is there from the start?
//!
//! The namespaces, the service and the priorities that clients take for granted, as on any cluster.

use std::sync::Arc;

use serde_json::json;

use crate::core::Core;
use crate::rest::internal;
use crate::store::{Body, Write, WriteError};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes what is missing.
pub(crate) async fn run(core: &Arc<Core>) -> Result<(), String> {
    for name in NAMESPACES {
        let namespace = json!({
            "metadata": {
                "name": name,
                "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": core.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        let write = Write {
            collection: Arc::from("namespaces"),
            key: Arc::from(name),
            expected: None,
            body: Some(Body::new(&namespace)),
        };
        match core.store.write(write).await {
            Ok(_) | Err(WriteError::Conflict) => {}
            Err(WriteError::Failed(why)) => return Err(why),
        }
    }
    let served = core.registry.served();
    if let Some(services) = served.find("", "v1", "services")
        && core.store.get("services", "default/kubernetes").is_none()
    {
        let labels = json!({"component": "apiserver", "provider": "kubernetes"});
        let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443});
        let service = json!({
            "metadata": {"name": "kubernetes", "labels": labels},
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [port]},
        });
        internal::create(core, services, Some("default"), service).await;
    }
    if let Some(classes) = served.find("scheduling.k8s.io", "v1", "priorityclasses") {
        for (name, value, what) in PRIORITIES {
            if core.store.get(&classes.storage, name).is_none() {
                let class =
                    json!({"metadata": {"name": name}, "value": value, "description": what});
                internal::create(core, classes, None, class).await;
            }
        }
    }
    Ok(())
}

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
