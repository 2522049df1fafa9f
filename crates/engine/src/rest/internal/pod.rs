//! What the engine's own scheduler does to one pod.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::keep::split;
use crate::rest::{Call, meta, pods};
use crate::status::Answer;

/// One pod, and not another that has its name later.
#[derive(Clone)]
pub(crate) struct PodRef {
    core: Arc<Core>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

impl PodRef {
    /// Names a pod by its key in the store and its uid.
    pub(crate) fn new(core: &Arc<Core>, key: &str, uid: &str) -> Self {
        let (namespace, name) = split(key);
        let namespace = namespace.unwrap_or_default().into();
        Self { core: Arc::clone(core), namespace, name: name.into(), uid: uid.into() }
    }

    /// Gives the present time as objects have it.
    pub(crate) fn now(&self) -> Value {
        meta::time(self.core.clock.now())
    }

    fn call(&self) -> Option<Call> {
        let served = self.core.registry.served();
        let pods = served.find("", "v1", "pods")?;
        Some(Call::internal(&self.core, pods, Some(&self.namespace), Some(&self.name)))
    }

    /// Changes the pod, if it is still there. `edit` sees and changes its metadata and these fields.
    pub(crate) async fn change(&self, fields: &[&str], edit: impl Fn(&mut Value)) {
        let Some(call) = self.call() else { return };
        let edit = |pod: &mut Value| {
            if meta::text(pod, "uid") == &*self.uid {
                edit(pod);
            }
        };
        let (namespace, name) = (Some(&*self.namespace), &*self.name);
        super::change(&self.core, &call.resource, namespace, name, fields, edit).await;
    }

    /// Gives the pod to a node.
    pub(crate) async fn bind(&self, node: &str) {
        let Some(call) = self.call() else { return };
        let target = json!({"kind": "Node", "name": node});
        let binding = json!({"metadata": {"uid": &*self.uid}, "target": target});
        let bound = loop {
            let bound = pods::bind_to(&call, &self.name, &binding).await;
            if !super::is_to_try_again(&self.core, &bound).await {
                break bound;
            }
        };
        self.told("bind", bound);
    }

    fn told(&self, what: &str, done: Answer<()>) {
        if let Err(status) = done
            && status.reason != "NotFound"
        {
            let (namespace, name) = (&*self.namespace, &*self.name);
            tracing::debug!(namespace, name, why = status.message, "could not {what} a pod");
        }
    }

    /// Says something about the pod in an event, if it can be said now.
    pub(crate) async fn event(&self, from: &str, kind: &str, reason: &str, message: &str) {
        let served = self.core.registry.served();
        let Some(events) = served.find("", "v1", "events") else { return };
        let now = self.now();
        let about = json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": &*self.namespace, "name": &*self.name, "uid": &*self.uid,
        });
        let event = json!({
            "metadata": {"name": format!("{}.{}", self.name, uuid::Uuid::new_v4().simple()), "namespace": &*self.namespace},
            "involvedObject": about, "type": kind, "reason": reason, "message": message,
            "source": {"component": from}, "reportingComponent": from, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
        });
        let said = super::try_create(&self.core, events, Some(&self.namespace), from, event);
        self.told("record an event of", said.await);
    }
}
