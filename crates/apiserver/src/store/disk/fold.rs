//! Folds old changes of the log into the table of objects.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use redb::WriteTransaction;

use super::super::{Change, Shared};
use super::{Disk, LOG, Log, LogValue, META, OBJECTS, codec};

/// Changes are folded by the thousand, which is cheaper than one by one.
pub(super) const FOLD: usize = 1024;
/// If more changes than this wait for a quiet time, each commit folds more than it adds.
pub(super) const UNFOLDED: usize = 64 * FOLD;

/// The log may have this many times the bytes of the history before commits fold; until then, dropped changes wait for a
/// quiet time, and only the last one of each object is written.
pub(super) const LOG_FACTOR: usize = 2;

/// The part of the log that can be folded: so many changes, which are so many values of the log, up to a version.
#[derive(Clone, Copy)]
pub(super) struct Foldable {
    changes: usize,
    values: usize,
    up_to: u64,
}

impl Disk {
    /// Returns whether enough changes are dropped to fold them when there is time.
    pub(super) fn has_to_fold(&self) -> bool {
        let is_large = self.log.bytes > self.history.bytes.saturating_add(self.history.bytes / 4);
        self.log.forgotten.len() >= FOLD || (is_large && !self.log.forgotten.is_empty())
    }

    /// Finds the changes that a commit of so many changes and bytes has to fold, since there was no quiet time.
    pub(super) fn foldable_with(&self, changes: usize, bytes: usize) -> Option<Foldable> {
        let is_behind = self.log.forgotten.len() >= self.most_forgotten
            || self.log.bytes > self.history.bytes.saturating_mul(LOG_FACTOR);
        if is_behind { self.log.foldable(2 * changes, 2 * bytes) } else { None }
    }

    /// Folds dropped changes into the objects; returns whether it succeeded.
    pub(super) fn fold(&mut self, shared: &Shared) -> bool {
        let Some(foldable) = self.log.foldable(FOLD, 0) else { return false };
        if let Err(err) = self.transact(|writing| self.log.write_folded(foldable, writing)) {
            // They stay in the log, and are folded later.
            self.fail(&err, shared);
            return false;
        }
        self.log.remove_folded(foldable);
        true
    }
}

impl Log {
    pub(super) fn push(&mut self, value: LogValue) {
        self.bytes += value.bytes;
        self.values.push_back(value);
    }

    /// Records that changes were dropped.
    pub(super) fn forget(&mut self, changes: Vec<Arc<Change>>) {
        for change in changes {
            self.last.insert(change.place(), change.version());
            self.forgotten.push_back(change);
        }
    }

    /// Finds about so many dropped changes, and at least so many bytes of them. The log is shortened by whole values only, which
    /// may have several changes.
    pub(super) fn foldable(&self, about: usize, bytes: usize) -> Option<Foldable> {
        let all = self.forgotten.back();
        let values_to = |change: Option<&Arc<Change>>| {
            change.map_or(0, |to| self.values.partition_point(|value| value.last <= to.version()))
        };
        let most = values_to(all);
        let by_changes = values_to(self.forgotten.get(about.saturating_sub(1)).or(all));
        let mut sum = 0;
        let by_bytes = self.values.iter().take_while(|value| {
            let is_needed = sum < bytes;
            sum += value.bytes;
            is_needed
        });
        let values = by_changes.max(by_bytes.count()).max(1).min(most);
        let up_to = self.values.get(values.checked_sub(1)?)?.last;
        let changes = self.forgotten.partition_point(|change| change.version() <= up_to);
        Some(Foldable { changes, values, up_to })
    }

    /// Applies changes to the table of objects and removes them from the log. A change is skipped if a later dropped change of the
    /// same object follows: that one is in the log until it is applied itself, and no reader needs the earlier states any more.
    /// New objects are not skipped, so that every object that the log deletes is in the table.
    pub(super) fn write_folded(
        &self,
        Foldable { changes, up_to, .. }: Foldable,
        writing: &WriteTransaction,
    ) -> Result<(), redb::Error> {
        let newest = self.forgotten.back().map_or(up_to, |change| change.version());
        let last: BTreeMap<String, &Change> = self
            .forgotten
            .range(..changes)
            .filter(|change| change.before.is_none() || self.is_last(change))
            .map(|change| (codec::join(&change.collection, &change.key), &**change))
            .collect();
        let mut objects = writing.open_table(OBJECTS)?;
        for (place, change) in last {
            if change.deleted {
                objects.remove(place.as_str())?;
            } else {
                let stored = codec::write_object(&change.object);
                objects.insert(place.as_str(), stored.as_slice())?;
            }
        }
        writing.open_table(LOG)?.retain_in(..=up_to, |_, _| false)?;
        let mut meta = writing.open_table(META)?;
        meta.insert("objects", up_to)?;
        meta.insert("forgotten", newest)?;
        Ok(())
    }

    fn is_last(&self, change: &Change) -> bool {
        self.last.get(&change.place()) == Some(&change.version())
    }

    /// Records that changes were folded.
    pub(super) fn remove_folded(&mut self, Foldable { changes, values, .. }: Foldable) {
        for change in self.forgotten.drain(..changes) {
            if let Entry::Occupied(last) = self.last.entry(change.place())
                && *last.get() == change.version()
            {
                last.remove();
            }
        }
        self.bytes -= self.values.drain(..values).map(|value| value.bytes).sum::<usize>();
    }
}
