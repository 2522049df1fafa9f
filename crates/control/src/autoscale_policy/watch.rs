//! Queues the services that a change affects.

use std::sync::Arc;

use api::plimsoll::{AutoScalePolicy, ScalingPolicy};
use cluster::{Key, Subscription};

use super::{Services, service_of};
use crate::targets::{TargetId, follow_rivals};

/// Queues services when their policies, their sources or the other autoscalers of their target change.
pub(super) fn changes(all: &Arc<Services>) -> Vec<Subscription> {
    // A subscriber may run while this controller ends, and must not keep it.
    let weak = Arc::downgrade(all);
    let policies = all.cx.caches.service_policies.subscribe(move |old, new| {
        if let Some(all) = weak.upgrade() {
            all.policy_changed(old.map(Arc::as_ref), new.map(Arc::as_ref));
        }
    });
    let weak = Arc::downgrade(all);
    let (caches, follows_hpas) = (&all.cx.caches, all.cx.settings.follows_hpas);
    let rivals = follow_rivals(&all.rivals, caches, follows_hpas, move |target: &TargetId| {
        if let Some(all) = weak.upgrade() {
            all.target_changed(target);
        }
    });
    let weak = Arc::downgrade(all);
    let scaling_policies = all.cx.caches.policies.subscribe(move |old, new| {
        let generation =
            |policy: Option<&Arc<ScalingPolicy>>| policy.map(|p| p.metadata.generation);
        if let Some(all) = weak.upgrade()
            && generation(old) != generation(new)
        {
            for policy in [old, new].into_iter().flatten() {
                let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
                all.target_changed(&TargetId::new(namespace, &policy.spec.target));
            }
        }
    });
    let weak = Arc::downgrade(all);
    let sources = all.cx.sources.subscribe(&all.cx.caches, move |name| {
        if let Some(all) = weak.upgrade() {
            all.source_changed(name);
        }
    });
    rivals.into_iter().chain([policies, scaling_policies, sources]).collect()
}

impl Services {
    fn policy_changed(&self, old: Option<&AutoScalePolicy>, new: Option<&AutoScalePolicy>) {
        if !spec_changed(old, new) {
            return;
        }
        for policy in [old, new].into_iter().flatten() {
            self.queue.add(service_of(policy));
        }
        if let (Some(gone), None) = (old, new) {
            self.cx.decisions.forget::<AutoScalePolicy>(&Key::from_meta(&gone.metadata));
        }
    }

    /// Queues the services that a target belongs to.
    fn target_changed(&self, target: &TargetId) {
        self.index.policies_of(target).into_iter().for_each(|service| self.queue.add(service));
    }

    /// Queues the services whose policies may use a source.
    fn source_changed(&self, name: &str) {
        // A subscriber must not use the cache that it is called from; this is another one.
        for policy in self.cx.caches.service_policies.all() {
            // Which target a policy has by default also depends on the sources.
            let has_default = policy.spec.target.is_none();
            if has_default || policy.spec.source.as_deref().is_none_or(|source| source == name) {
                self.queue.add(service_of(&policy));
            }
        }
    }
}

/// Whether more than the status, which is our own writing, changed.
fn spec_changed(old: Option<&AutoScalePolicy>, new: Option<&AutoScalePolicy>) -> bool {
    let parts = |policy: &AutoScalePolicy| {
        let meta = &policy.metadata;
        (meta.uid.clone(), meta.generation, meta.deletion_timestamp.is_some())
    };
    old.map(parts) != new.map(parts)
}
