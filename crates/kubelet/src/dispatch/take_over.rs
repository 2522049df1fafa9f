//! Takes over the pods of an earlier run.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

use super::Dispatcher;
use super::pods::{deletion, node_name, phase};
use crate::client::PodHandle;
use crate::recover;

/// How many pods of an earlier run are ended at the same time.
const IN_FLIGHT: usize = 256;

impl Dispatcher {
    /// Marks the pods as failed that ran in an earlier run, and starts those that it had not started.
    pub(super) fn take_over(&mut self, pods: Vec<Arc<Pod>>, ready: oneshot::Sender<()>) {
        let mut lost = Vec::new();
        for pod in pods {
            let is_deleted = deletion(&pod).is_some();
            let is_lost = is_deleted || phase(&pod) == "Running";
            if is_lost && self.is_own_node(node_name(&pod)) {
                let entry = self.machine.pods.insert(pod);
                lost.push((self.machine.pod_client.pod(&entry), is_deleted));
            } else {
                self.pod(pod);
            }
        }
        let supervisor = self.machine.context.supervisor.clone();
        self.tasks.spawn(async move {
            let ending = lost.into_iter().map(|(pod, is_deleted)| {
                let supervisor = supervisor.clone();
                async move {
                    // A panic is retried: without a task, the pod would stay as it is for ever.
                    let name = format!("end of pod {} of an earlier run", pod.entry.key);
                    supervisor.complete(name, || end(&pod, is_deleted)).await;
                }
            });
            futures::stream::iter(ending).buffer_unordered(IN_FLIGHT).for_each(|()| async {}).await;
            let _ = ready.send(());
        });
    }
}

/// Marks a pod as failed, or removes it if it is deleted.
async fn end(pod: &PodHandle, is_deleted: bool) {
    if is_deleted { pod.remove().await } else { recover::restarted(pod).await }
}
