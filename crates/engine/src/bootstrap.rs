//! What is there from the start?
//!
//! The namespaces that clients take for granted, as on any cluster.

use std::sync::Arc;

use serde_json::json;

use crate::core::Core;
use crate::store::{Body, Write, WriteError};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Makes what is missing.
pub(crate) async fn run(core: &Core) -> Result<(), String> {
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
    Ok(())
}
