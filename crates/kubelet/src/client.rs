//! Everything that the kubelet writes about a pod: its status, its events, and its final deletion.

use std::sync::Arc;

use cluster::error::status_code;
use cluster::{EventRecorder, EventType, Undecoded};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource as _};
use process::Clock;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::pods::PodEntry;
use crate::retry::{Retry, Written};
use crate::status::{Role, containers};

/// The name under which the kubelet writes fields and reports events.
pub(crate) const COMPONENT: &str = "kubelet";

/// Writes the status and events of pods.
#[derive(Clone)]
pub(crate) struct PodClient {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) events: EventRecorder,
    pub(crate) retry: Retry,
}

impl PodClient {
    /// Returns the handle of a pod.
    pub(crate) fn pod(&self, entry: &Arc<PodEntry>) -> PodHandle {
        PodHandle { client: self.clone(), entry: Arc::clone(entry) }
    }
}

/// Reads and writes one pod.
#[derive(Clone)]
pub(crate) struct PodHandle {
    client: PodClient,
    pub(crate) entry: Arc<PodEntry>,
}

impl PodHandle {
    /// Returns the latest known version of the pod.
    pub(crate) fn latest(&self) -> Arc<Pod> {
        self.entry.latest()
    }

    fn api(&self) -> Api<Undecoded<Pod>> {
        Api::namespaced(self.client.client.clone(), &self.entry.key.namespace)
    }

    /// Writes the status that `status` computes from the latest pod and the status that was written last; nothing is sent if
    /// that is `None`, or unchanged. Returns when the API server has it, the pod no longer exists, or the kubelet stops.
    pub(crate) async fn write_status(
        &self,
        status: impl Fn(&Pod, Option<&Value>, Timestamp) -> Option<Value> + Sync,
    ) {
        // The lock keeps statuses in order.
        let mut written = self.entry.written.lock().await;
        let (status, last) = (&status, &*written);
        let mut sent = None;
        let attempt = || {
            let wanted = status(&self.latest(), last.as_ref(), self.client.clock.now());
            let wanted = wanted.filter(|wanted| last.as_ref() != Some(wanted));
            sent.clone_from(&wanted);
            async move {
                match wanted {
                    Some(wanted) => self.patch_status(wanted).await,
                    None => Ok(Written::Done),
                }
            }
        };
        let what = "write a pod's status";
        let outcome = self.client.retry.until_written(what, &self.entry.key, attempt).await;
        if outcome == Some(Written::Done) && sent.is_some() {
            *written = sent;
        }
    }

    async fn patch_status(&self, status: Value) -> kube::Result<Written> {
        let patch = json!({"metadata": {"uid": &*self.entry.uid}, "status": status});
        let params =
            PatchParams { field_manager: Some(COMPONENT.to_owned()), ..PatchParams::default() };
        let pods = Request::new(Pod::url_path(&(), Some(&self.entry.key.namespace)));
        let name = &self.entry.key.name;
        let request = pods.patch_subresource("status", name, &params, &Patch::Strategic(patch));
        let request = request.map_err(kube::Error::BuildRequest)?;
        // The watch delivers the new version.
        match self.client.client.request::<IgnoredAny>(request).await {
            Ok(_) => Ok(Written::Done),
            Err(error) => self.unless_gone(error).await,
        }
    }

    /// Reads the pod, unless another one has its name by now.
    pub(crate) async fn refresh(&self) {
        if let Ok(Some(pod)) = self.api().get_opt(&self.entry.key.name).await {
            pod.decode().into_iter().for_each(|pod| self.keep(pod));
        }
    }

    /// Deletes the object of a pod whose containers have all ended.
    pub(crate) async fn remove(&self) {
        let preconditions =
            Preconditions { uid: Some(self.entry.uid.to_string()), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let (params, api) = (&params, &self.api());
        let attempt = || async move {
            match api.delete(&self.entry.key.name, params).await {
                Ok(_) => Ok(Written::Done),
                Err(error) => self.unless_gone(error).await,
            }
        };
        let _ = self.client.retry.until_written("delete a pod", &self.entry.key, attempt).await;
    }

    /// Reads the pod after a rejected write: it may no longer exist, or another one may have its name.
    async fn unless_gone(&self, error: kube::Error) -> kube::Result<Written> {
        match status_code(&error) {
            Some(404) => return Ok(Written::Gone),
            Some(409 | 422) => {}
            Some(_) | None => return Err(error),
        }
        match self.api().get_opt(&self.entry.key.name).await? {
            Some(pod) if pod.meta().uid.as_deref() == Some(&*self.entry.uid) => {
                pod.decode().into_iter().for_each(|pod| self.keep(pod));
                Err(error)
            }
            Some(_) | None => Ok(Written::Gone),
        }
    }

    fn keep(&self, pod: Pod) {
        if pod.metadata.uid.as_deref() == Some(&*self.entry.uid) {
            self.entry.update(Arc::new(pod));
        }
    }

    /// Records an event about the pod, or about one of its containers.
    pub(crate) fn event(
        &self,
        container: Option<&str>,
        event_type: EventType,
        reason: &str,
        note: impl Into<String>,
    ) {
        let pod = self.latest();
        let about = ObjectReference {
            field_path: container.map(|name| field_path(&pod, name)),
            ..pod.object_ref(&())
        };
        let host = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let source = EventSource { component: Some(COMPONENT.to_owned()), host };
        self.client.events.record_from(about, source, event_type, reason, note.into());
    }

    /// Returns the pod's name as kubelet writes it into messages.
    pub(crate) fn long_name(&self) -> String {
        let PodEntry { key, uid, .. } = &*self.entry;
        format!("{}_{}({uid})", key.name, key.namespace)
    }
}

/// Returns the path of a container in its pod, as events name it.
fn field_path(pod: &Pod, container: &str) -> String {
    let role = containers(pod).find(|(_, c)| c.name == container).map(|(role, _)| role);
    let list = if role == Some(Role::Main) { "containers" } else { "initContainers" };
    format!("spec.{list}{{{container}}}")
}
