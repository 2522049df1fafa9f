//! Targets that another autoscaler sizes too. Two autoscalers of one target would undo each other's changes, so ours holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::autoscaling::FleetAutoscaler;
use api::plimsoll::ScalingPolicy;
use cluster::{Caches, HorizontalPodAutoscaler, Key, ScaleTargetRef, ScaledObject, Subscription};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{TargetId, group};

/// The other active autoscalers, by their target.
#[derive(Default)]
pub(crate) struct Rivals {
    by_target: Mutex<BTreeMap<TargetId, BTreeSet<String>>>,
}

impl Rivals {
    /// Returns the name of another autoscaler of a target.
    pub(crate) fn name_of(&self, target: &TargetId) -> Option<String> {
        let by_target = self.by_target.lock().unwrap_or_else(PoisonError::into_inner);
        by_target.get(target)?.first().cloned()
    }

    /// Replaces the target of an autoscaler; `None` if it is not active. Returns the targets that this changes.
    fn replace(&self, name: &str, old: Option<TargetId>, new: Option<TargetId>) -> Vec<TargetId> {
        if old == new {
            return Vec::new();
        }
        let mut by_target = self.by_target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = &old
            && let Some(names) = by_target.get_mut(old)
        {
            names.remove(name);
            if names.is_empty() {
                by_target.remove(old);
            }
        }
        if let Some(new) = &new {
            by_target.entry(new.clone()).or_default().insert(name.to_owned());
        }
        old.into_iter().chain(new).collect()
    }
}

/// Returns which of the scaling policies of one target acts: the oldest one that is enabled, no dry run and not being deleted.
pub(crate) fn acting_policy(policies: impl IntoIterator<Item = Arc<ScalingPolicy>>) -> Option<Key> {
    let acting = policies.into_iter().filter(|policy| {
        policy.spec.enabled && !policy.spec.dry_run && policy.metadata.deletion_timestamp.is_none()
    });
    let age = |policy: Arc<ScalingPolicy>| {
        let meta = &policy.metadata;
        (meta.creation_timestamp.as_ref().map(|time| time.0), Key::from_meta(meta))
    };
    acting.map(age).min().map(|(_, oldest)| oldest)
}

/// An autoscaler that is not part of this controller.
trait Rival: Resource<DynamicType = ()> {
    /// Returns its target while it is active.
    fn target(&self) -> Option<TargetId>;
}

fn referenced(meta: &ObjectMeta, target: &ScaleTargetRef) -> TargetId {
    let kind = target.kind.as_deref().unwrap_or("Deployment");
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    TargetId::object(group(target.api_version.as_deref(), kind), kind, namespace, &target.name)
}

impl Rival for HorizontalPodAutoscaler {
    fn target(&self) -> Option<TargetId> {
        self.is_active().then(|| referenced(&self.metadata, &self.spec.scale_target_ref))
    }
}

impl Rival for ScaledObject {
    fn target(&self) -> Option<TargetId> {
        self.is_active().then(|| referenced(&self.metadata, &self.spec.scale_target_ref))
    }
}

impl Rival for FleetAutoscaler {
    fn target(&self) -> Option<TargetId> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        Some(TargetId::object("agones.dev", "Fleet", namespace, &self.spec.fleet_name))
    }
}

/// Calls `changed` with each target that an autoscaler starts or stops to size.
pub(super) fn follow(
    rivals: &Arc<Rivals>,
    caches: &Caches,
    follows_hpas: bool,
    changed: impl Fn(&TargetId) + Clone + Send + Sync + 'static,
) -> Vec<Subscription> {
    let hpas = follows_hpas.then(|| {
        let (rivals, changed) = (Arc::clone(rivals), changed.clone());
        caches.hpas.subscribe(move |old, new| {
            update(&rivals, old.map(Arc::as_ref), new.map(Arc::as_ref), &changed);
        })
    });
    let scaled_objects = {
        let (rivals, changed) = (Arc::clone(rivals), changed.clone());
        caches.scaled_objects.subscribe(move |old, new| {
            update(&rivals, old.map(Arc::as_ref), new.map(Arc::as_ref), &changed);
        })
    };
    let rivals = Arc::clone(rivals);
    let autoscalers = caches.autoscalers.subscribe(move |old, new| {
        update(&rivals, old.map(Arc::as_ref), new.map(Arc::as_ref), &changed);
    });
    hpas.into_iter().chain([scaled_objects, autoscalers]).collect()
}

fn update<R: Rival>(
    rivals: &Rivals,
    old: Option<&R>,
    new: Option<&R>,
    changed: &impl Fn(&TargetId),
) {
    let Some(meta) = new.or(old).map(Resource::meta) else { return };
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    let name =
        format!("{} {}/{}", R::kind(&()), namespace.unwrap_or_default(), name.unwrap_or_default());
    let targets = rivals.replace(&name, old.and_then(Rival::target), new.and_then(Rival::target));
    targets.iter().for_each(changed);
}
