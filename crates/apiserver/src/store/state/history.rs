//! The retention of changes.
//!
//! It is limited by number, age and bytes. Age is measured by how far the clock advances, so that nothing is kept longer when the
//! clock is set back, and not everything is dropped at once when it is set forward or the machine slept. Changes that a watcher
//! has yet to read are kept beyond that, within limits: a watcher that keeps reading always finds them, and one that does not
//! cannot keep more than a few times the usual amount.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::History;
use super::{Change, Kept, State};

/// The number of recent changes of a collection whose object or event is kept uncompressed.
const RECENT: usize = 1024;
/// A jump of the clock counts as this many milliseconds at most, since watchers had no time to read during it.
const LEAP: i64 = 60_000;
/// The limits for changes that watchers have yet to read: this many times the usual ones, or these if they are larger.
const FOR_WATCHERS: usize = 4;
const CHANGES_FOR_WATCHERS: usize = 8192;
const BYTES_FOR_WATCHERS: usize = 16 << 20;

impl State {
    /// Returns the newest version whose change is not kept.
    pub(in crate::store) fn forgotten_to(&self) -> u64 {
        // Each change makes the next version.
        self.version - self.order.len() as u64
    }

    /// Advances the time. A time earlier than the last counts as the same.
    pub(in crate::store) fn advance(&mut self, now: i64) {
        let passed = now.saturating_sub(self.clock.unwrap_or(now));
        self.passed += passed.clamp(0, LEAP);
        self.clock = Some(now);
    }

    pub(super) fn remember(&mut self, change: Arc<Change>, on_disk: usize) {
        let (bytes, collection) = (change.bytes().max(on_disk), Arc::clone(&change.collection));
        self.order.push_back(Kept { at: self.passed, bytes, collection });
        self.bytes += bytes;
        let changes = &mut self.collection(&change.collection).changes;
        changes.push_back(change);
        // Watchers that keep up have read it by now; for others it is encoded again.
        if let Some(old) = changes.len().checked_sub(RECENT).and_then(|at| changes.get(at)) {
            old.forget_recent();
        }
    }

    /// Returns how many of the oldest changes are too many.
    fn excess(&self, at_most: usize, bytes: usize) -> usize {
        let mut kept = self.bytes;
        let too_large = self.order.iter().take_while(|change| {
            let is_too_large = kept > bytes;
            kept -= change.bytes;
            is_too_large
        });
        too_large.count().max(self.order.len().saturating_sub(at_most))
    }

    /// Drops the changes that are too old or too many, and returns them to be freed. Changes that watchers have yet to read are kept
    /// for longer, within limits: the function returns the version up to which the watchers of a collection have read that have
    /// not missed a given version already.
    pub(in crate::store) fn trim(
        &mut self,
        history: &History,
        mut read_to: impl FnMut(&str, u64) -> u64,
    ) -> Vec<Arc<Change>> {
        let keep_for = i64::try_from(history.keep_for.as_millis()).unwrap_or(i64::MAX);
        let oldest = self.passed.saturating_sub(keep_for);
        let (mut count, mut bytes, mut is_unread) = (0, self.bytes, false);
        let mut read: BTreeMap<&str, u64> = BTreeMap::new();
        for (version, change) in (self.forgotten_to() + 1..).zip(&self.order) {
            let is_too_much = self.order.len() - count > history.at_most || bytes > history.bytes;
            if !is_too_much && change.at >= oldest {
                break;
            }
            let collection = &*change.collection;
            let read = read
                .entry(collection)
                .or_insert_with(|| read_to(collection, self.forgotten(collection)));
            is_unread = *read < version;
            if is_unread {
                break;
            }
            bytes -= change.bytes;
            count += 1;
        }
        if is_unread {
            let at_most = history.at_most.saturating_mul(FOR_WATCHERS).max(CHANGES_FOR_WATCHERS);
            let bytes = history.bytes.saturating_mul(FOR_WATCHERS).max(BYTES_FOR_WATCHERS);
            count = count.max(self.excess(at_most, bytes));
        }
        self.forget(count)
    }

    /// Drops the changes up to a version, and returns them.
    pub(in crate::store) fn forget_to(&mut self, version: u64) -> Vec<Arc<Change>> {
        // Each change makes the next version.
        let since = self.version.saturating_sub(version);
        let kept = usize::try_from(since).unwrap_or(usize::MAX).min(self.order.len());
        self.forget(self.order.len() - kept)
    }

    fn forget(&mut self, count: usize) -> Vec<Arc<Change>> {
        let kept: Vec<_> = self.order.drain(..count).collect();
        let mut forgotten = Vec::with_capacity(kept.len());
        for kept in kept {
            self.bytes -= kept.bytes;
            let collection = self.collection(&kept.collection);
            if let Some(change) = collection.changes.pop_front() {
                collection.forgotten = change.version();
                change.forget_recent();
                forgotten.push(change);
            }
        }
        forgotten
    }
}
