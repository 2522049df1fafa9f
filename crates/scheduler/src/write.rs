//! The scheduler's writes: bindings, conditions of pods without a node, and the deletion of preempted pods.

use std::time::Duration;

use cluster::{EventRecorder, EventType, Key, error};
use k8s_openapi::api::core::v1::{Binding, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource as _};
use process::Clock;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::watched_pod::WatchedPod;

/// How long a write may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest note of an event that an API server accepts, in bytes.
const LONGEST_NOTE: usize = 1024;

/// One pod, and not another that gets its name later.
#[derive(Clone, Debug)]
pub(crate) struct PodRef {
    pub(crate) key: Key,
    pub(crate) uid: Box<str>,
}

/// A write about a pod.
#[derive(Debug)]
pub(crate) enum PodWrite {
    /// Binds it to a node.
    Bind { pod: PodRef, node: Box<str> },
    /// Sets the condition with the reason why it is unschedulable.
    MarkUnschedulable { pod: PodRef, why: Unschedulable },
}

/// Why no node takes a pod, and how room is made for it.
#[derive(Debug)]
pub(crate) struct Unschedulable {
    /// The version that was decided on: a newer pod wins.
    pub(crate) resource_version: Option<String>,
    pub(crate) message: String,
    /// Since when no node has taken it; `None`: since now.
    pub(crate) since: Option<Time>,
    /// The node on which room is made.
    pub(crate) nominated: Option<Box<str>>,
    /// The pods that are deleted there.
    pub(crate) victims: Vec<PodRef>,
}

impl PodWrite {
    /// Returns the pod that it is about.
    pub(crate) fn pod(&self) -> &PodRef {
        let (Self::Bind { pod, .. } | Self::MarkUnschedulable { pod, .. }) = self;
        pod
    }
}

/// The outcome of a write.
pub(crate) enum WriteOutcome {
    Bound,
    /// The pod as the write left it.
    Marked(Box<WatchedPod>),
    Failed,
}

/// Sends writes, and records their events.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) events: EventRecorder,
    pub(crate) clock: Clock,
    pub(crate) scheduler_name: String,
}

impl Writer {
    /// Sends a write. A failure is logged; the pod is decided again.
    pub(crate) async fn send(self, write: PodWrite) -> (PodWrite, WriteOutcome) {
        let outcome = match tokio::time::timeout(TIMEOUT, self.try_send(&write)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let key = &write.pod().key;
                let explained = error::explain(&error);
                // The pod was deleted, or another client wrote to it: the watch delivers the change.
                if matches!(error::status_code(&error), Some(404 | 409)) {
                    tracing::debug!(%key, error = %explained, "pod has changed; deciding again");
                } else {
                    tracing::warn!(%key, error = %explained, "could not bind or update pod; retrying");
                }
                WriteOutcome::Failed
            }
            Err(_) => {
                let key = &write.pod().key;
                tracing::warn!(%key, "could not bind or update pod: timed out; retrying");
                WriteOutcome::Failed
            }
        };
        (write, outcome)
    }

    async fn try_send(&self, write: &PodWrite) -> kube::Result<WriteOutcome> {
        match write {
            PodWrite::Bind { pod, node } => {
                self.bind(pod, node).await?;
                let note = format!("Successfully assigned {} to {node}", pod.key);
                self.record(pod, EventType::Normal, "Scheduled", note);
                Ok(WriteOutcome::Bound)
            }
            PodWrite::MarkUnschedulable { pod, why } => {
                let node = why.nominated.as_deref().unwrap_or_default();
                for victim in &why.victims {
                    self.preempt(victim, pod, node).await?;
                }
                let answer = self.mark_unschedulable(pod, why).await?;
                let mut note = why.message.clone();
                note.truncate(note.floor_char_boundary(LONGEST_NOTE));
                self.record(pod, EventType::Warning, "FailedScheduling", note);
                Ok(WriteOutcome::Marked(answer.into()))
            }
        }
    }

    async fn bind(&self, pod: &PodRef, node: &str) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.key.namespace);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(pod.key.name.to_string()),
                namespace: Some(pod.key.namespace.to_string()),
                uid: Some(pod.uid.to_string()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let params =
            PostParams { field_manager: Some(self.scheduler_name.clone()), dry_run: false };
        let IgnoredAny =
            api.create_subresource("binding", &pod.key.name, &params, &binding).await?;
        Ok(())
    }

    async fn mark_unschedulable(
        &self,
        pod: &PodRef,
        why: &Unschedulable,
    ) -> kube::Result<WatchedPod> {
        let Unschedulable { resource_version, message, since, nominated, .. } = why;
        let api: Api<WatchedPod> = Api::namespaced(self.client.clone(), &pod.key.namespace);
        let now = Time(self.clock.now());
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastProbeTime": null, "lastTransitionTime": since.as_ref().unwrap_or(&now),
        });
        let patch = json!({
            "metadata": {"uid": pod.uid, "resourceVersion": resource_version},
            "status": {"conditions": [condition], "nominatedNodeName": nominated},
        });
        let params = self.patch_params();
        api.patch_status(&pod.key.name, &params, &Patch::Strategic(patch)).await
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.scheduler_name.clone()), ..PatchParams::default() }
    }

    /// Deletes a pod with its grace period, so that a more important one has room. It may be gone already.
    async fn preempt(&self, victim: &PodRef, preemptor: &PodRef, node: &str) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &victim.key.namespace);
        let name = &victim.key.name;
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!("{}: preempting to accommodate a higher priority pod", self.scheduler_name),
            "lastProbeTime": null, "lastTransitionTime": Time(self.clock.now()),
        });
        let patch = json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}});
        let marked = api.patch_status(name, &self.patch_params(), &Patch::Strategic(patch)).await;
        let preconditions =
            Preconditions { uid: Some(victim.uid.to_string()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = match marked {
            Ok(_) => api.delete(name, &params).await.map(drop),
            Err(error) => Err(error),
        };
        match deleted {
            // Another pod may have its name by now.
            Err(error) if matches!(error::status_code(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let note = format!("Preempted by pod {} on node {node}", preemptor.uid);
                self.record(victim, EventType::Normal, "Preempted", note);
                Ok(())
            }
        }
    }

    fn record(&self, pod: &PodRef, event_type: EventType, reason: &str, note: String) {
        let about = ObjectReference {
            api_version: Some(Pod::api_version(&()).into_owned()),
            kind: Some(Pod::kind(&()).into_owned()),
            namespace: Some(pod.key.namespace.to_string()),
            name: Some(pod.key.name.to_string()),
            uid: Some(pod.uid.to_string()),
            ..ObjectReference::default()
        };
        let source = EventSource { component: Some(self.scheduler_name.clone()), host: None };
        self.events.record_from(about, source, event_type, reason, note);
    }
}
