//! Queues the policies that a change affects.

use std::sync::Arc;

use api::plimsoll::ScalingPolicy;
use cluster::{Key, Subscription};

use super::{Policies, id_of};
use crate::targets::{TargetId, follow_rivals};

/// Queues policies when they, the other autoscalers of their target or their sources change.
pub(super) fn changes(all: &Arc<Policies>) -> Vec<Subscription> {
    // A subscriber may run while this controller ends, and must not keep it.
    let weak = Arc::downgrade(all);
    let policies = all.cx.caches.policies.subscribe(move |old, new| {
        if let Some(all) = weak.upgrade() {
            all.policy_changed(old.map(Arc::as_ref), new.map(Arc::as_ref));
        }
    });
    let weak = Arc::downgrade(all);
    let (caches, follows_hpas) = (&all.cx.caches, all.cx.settings.follows_hpas);
    let rivals = follow_rivals(&all.rivals, caches, follows_hpas, move |target: &TargetId| {
        if let Some(all) = weak.upgrade() {
            all.index.policies_of(target).into_iter().for_each(|key| all.queue.add(key));
        }
    });
    let weak = Arc::downgrade(all);
    let sources = all.cx.sources.subscribe(&all.cx.caches, move |name| {
        if let Some(all) = weak.upgrade() {
            all.source_changed(name);
        }
    });
    [policies, sources].into_iter().chain(rivals).collect()
}

impl Policies {
    fn policy_changed(&self, old: Option<&ScalingPolicy>, new: Option<&ScalingPolicy>) {
        let Some(key) = new.or(old).map(|policy| Key::from_meta(&policy.metadata)) else { return };
        if !spec_changed(old, new) {
            return;
        }
        let (was, is) = (old.map(id_of), new.map(id_of));
        let others = self.index.replace(&key, was.as_ref(), is.as_ref());
        // Another policy of the same target may be the one that acts now.
        others.into_iter().for_each(|other| self.queue.add(other));
        if new.is_none() {
            self.index.remove(&key);
            self.cx.decisions.forget::<ScalingPolicy>(&key);
        } else {
            self.queue.add(key);
        }
    }

    /// Queues the policies that may use a source.
    fn source_changed(&self, name: &str) {
        // A subscriber must not use the cache that it is called from; this is another one.
        for policy in self.cx.caches.policies.all() {
            let spec = &policy.spec;
            let checks = spec.checks.iter().map(|check| check.source.as_deref());
            let requests = spec.requests_from.iter().map(|from| Some(from.source.as_str()));
            let rules = (!spec.rules.is_empty()).then_some(spec.source.as_deref());
            if checks.chain(requests).chain(rules).any(|source| source.is_none_or(|s| s == name)) {
                self.queue.add(Key::from_meta(&policy.metadata));
            }
        }
    }
}

/// Whether more than the status, which is our own writing, changed.
fn spec_changed(old: Option<&ScalingPolicy>, new: Option<&ScalingPolicy>) -> bool {
    let parts = |policy: &ScalingPolicy| {
        let meta = &policy.metadata;
        (meta.uid.clone(), meta.generation, meta.deletion_timestamp.is_some())
    };
    old.map(parts) != new.map(parts)
}
