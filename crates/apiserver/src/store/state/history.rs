//! How much of the past is kept?
//!
//! So many changes, for so long, in so many bytes. Age is counted by how far the clock advances, so that one that is set
//! back keeps nothing for longer, and one that is set forward, or a machine that slept, does not forget everything at once.
//! What a watcher has yet to read is kept beyond that, within limits: who reads on never finds it forgotten, and who does not
//! read cannot keep more than a few times the usual.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::History;
use super::{Change, Kept, State};

/// Of how many changes of a collection more is at hand than is kept.
const RECENT: usize = 1024;
/// Time that the clock skips at once counts as this many milliseconds at most: watchers had no more of it to read in.
const LEAP: i64 = 60_000;
/// So many times the usual is kept for watchers that have not read it yet, and at least this much.
const FOR_WATCHERS: usize = 4;
const CHANGES_FOR_WATCHERS: usize = 8192;
const BYTES_FOR_WATCHERS: usize = 16 << 20;

impl State {
    /// Returns the newest version whose change is forgotten, or from before what is known.
    pub(in crate::store) fn forgotten_to(&self) -> u64 {
        // Each change makes the next version.
        self.version - self.order.len() as u64
    }

    /// Takes note of the time. One that is earlier than the last counts as the same.
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
        // Watchers that keep up have had it by now, and one that does not writes it again.
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

    /// Forgets what is too old or too much, and returns it to be freed. Asks up to which version watchers have read a
    /// collection, of those that have not missed a given one already: what they have yet to read is kept for longer, within limits.
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

    /// Forgets the changes up to a version, and gives them.
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
