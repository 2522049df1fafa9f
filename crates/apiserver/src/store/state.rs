//! Keeps the objects in memory, and the changes that led to them.
//!
//! Versions grow by one with each change. A change holds the object before and after it, so that a list can be read
//! as it was at an earlier version: what is there now, with the changes since then undone.

mod history;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{Body, Expired, Object};

/// The memory of a change besides its objects.
const OVERHEAD: usize = 128;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// When it happened, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The collection.
    pub(crate) collection: Arc<str>,
    /// Namespace and name.
    pub(crate) key: Arc<str>,
    /// The object after the change; for a deletion, as it last was, at the version of the deletion.
    pub(crate) object: Object,
    /// The object before the change; `None` when it is new.
    pub(crate) before: Option<Object>,
    /// Whether the object is gone.
    pub(crate) deleted: bool,
    /// Whether owners, finalizers and deletion of the object are as they were.
    pub(crate) keeps_ties: bool,
    recent: Mutex<Recent>,
}

/// A recent change, for watchers.
#[derive(Debug)]
enum Recent {
    /// The object, to be written without unpacking it.
    Whole(Object),
    /// The event, as the first watcher wrote it.
    Written(Bytes),
    /// Nothing any more.
    Nothing,
}

impl Change {
    /// Returns the change that stores a body or, without one, deletes the object.
    pub(super) fn new(
        at: i64,
        (collection, key): (Arc<str>, Arc<str>),
        version: u64,
        body: Option<Body>,
        before: Option<Object>,
    ) -> Option<Self> {
        let (deleted, keeps_ties) = (body.is_none(), body.as_ref().is_some_and(Body::keeps_ties));
        let (object, recent) = match (body, &before) {
            (Some(body), _) => (body.at(version), Recent::Whole(body.whole_at(version))),
            (None, Some(last)) => (last.at(version), Recent::Nothing),
            (None, None) => return None,
        };
        let recent = Mutex::new(recent);
        Some(Self { at, collection, key, object, before, deleted, keeps_ties, recent })
    }

    /// The type of the event for a watcher of the whole collection.
    pub(crate) fn kind(&self) -> &'static str {
        match (&self.before, self.deleted) {
            (_, true) => "DELETED",
            (None, false) => "ADDED",
            (Some(_), false) => "MODIFIED",
        }
    }

    /// Returns the event for who watches the whole collection, in the version that `opening` is of.
    pub(crate) fn event(&self, opening: &str) -> Bytes {
        let mut recent = self.recent.lock().expect("no one panics while holding it");
        let event = match &*recent {
            Recent::Written(event) if Object::is_event(event, self.kind(), opening) => {
                return event.clone();
            }
            Recent::Whole(object) => object.event(self.kind(), opening),
            Recent::Written(_) | Recent::Nothing => self.object.event(self.kind(), opening),
        };
        *recent = Recent::Written(event.clone());
        event
    }

    fn forget_recent(&self) {
        *self.recent.lock().expect("no one panics while holding it") = Recent::Nothing;
    }

    /// Returns where the object is: its collection and its key.
    pub(super) fn place(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.collection), Arc::clone(&self.key))
    }

    /// Returns how many bytes it takes to remember the change.
    fn bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, Object::packed_size);
        OVERHEAD + self.key.len() + self.object.packed_size().max(before)
    }

    /// Returns the version that the change made.
    pub(crate) fn version(&self) -> u64 {
        self.object.version()
    }
}

/// A part of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// The version the list is read at.
    pub(crate) version: u64,
    /// Keys and objects, in order of key.
    pub(crate) items: Vec<(Arc<str>, Object)>,
    /// How many more there are.
    pub(crate) remaining: usize,
}

/// Objects of one kind.
#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<Arc<str>, Object>,
    changes: VecDeque<Arc<Change>>,
    /// The newest version whose change is forgotten.
    forgotten: u64,
}

/// Everything in memory.
#[derive(Debug)]
pub(super) struct State {
    version: u64,
    /// The version that everything was restored at.
    restored: u64,
    collections: BTreeMap<Arc<str>, Collection>,
    /// All changes that are kept, by version, to be forgotten in that order.
    order: VecDeque<Kept>,
    /// How many bytes they take.
    bytes: usize,
    /// The last time of the clock, and how far it has advanced, both in milliseconds.
    clock: Option<i64>,
    passed: i64,
}

/// A change that is kept.
#[derive(Debug)]
struct Kept {
    /// How far the clock had advanced.
    at: i64,
    bytes: usize,
    collection: Arc<str>,
}

impl Default for State {
    /// The first change makes version 2, since clients read versions 0 and 1 as "any".
    fn default() -> Self {
        Self::restored(1, Vec::new())
    }
}

impl State {
    /// Starts from the objects at a version.
    pub(super) fn restored(version: u64, objects: Vec<(Arc<str>, Arc<str>, Object)>) -> Self {
        let mut collections: BTreeMap<Arc<str>, Collection> = BTreeMap::new();
        for (collection, key, object) in objects {
            collections.entry(collection).or_default().objects.insert(key, object);
        }
        let (order, bytes, clock, passed) = (VecDeque::new(), 0, None, 0);
        Self { version, restored: version, collections, order, bytes, clock, passed }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, collection: &str, key: &str) -> Option<&Object> {
        self.collections.get(collection)?.objects.get(key)
    }

    pub(super) fn each(&self, mut see: impl FnMut(&Arc<str>, &Arc<str>, &Object)) {
        for (name, collection) in &self.collections {
            collection.objects.iter().for_each(|(key, object)| see(name, key, object));
        }
    }

    pub(super) fn list(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Page, Expired> {
        let version = at.unwrap_or(self.version);
        if version < self.forgotten(collection) {
            return Err(Expired);
        }
        let Some(collection) = self.collections.get(collection) else {
            return Ok(Page { version, items: Vec::new(), remaining: 0 });
        };
        let is_unchanged = collection.changes.back().is_none_or(|c| c.version() <= version);
        if is_unchanged {
            let items: Vec<_> = collection.range(prefix, after).take(limit).map(owned).collect();
            let remaining = match items.last() {
                Some((last, _)) if items.len() == limit => {
                    collection.range(prefix, Some(last)).count()
                }
                _ => 0,
            };
            return Ok(Page { version, items, remaining });
        }
        let mut items = collection.as_of(version, prefix, after);
        let remaining = items.len().saturating_sub(limit);
        items.truncate(limit);
        Ok(Page { version, items, remaining })
    }

    pub(super) fn changes(
        &self,
        collection: &str,
        after: u64,
        at_most: usize,
        bytes: usize,
    ) -> Result<(Vec<Arc<Change>>, u64), Expired> {
        if after < self.forgotten(collection) {
            return Err(Expired);
        }
        let Some(collection) = self.collections.get(collection) else {
            return Ok((Vec::new(), self.version));
        };
        let from = collection.changes.partition_point(|c| c.version() <= after);
        let mut sum = 0;
        let fitting = collection.changes.range(from..).take(at_most).take_while(|change| {
            let fits = sum == 0 || sum < bytes;
            sum += change.object.size();
            fits
        });
        let changes: Vec<_> = fitting.cloned().collect();
        let reached = match changes.last() {
            Some(last) if from + changes.len() < collection.changes.len() => last.version(),
            _ => self.version,
        };
        Ok((changes, reached))
    }

    /// Returns whether the same objects are here, at the same versions.
    pub(super) fn has_same_objects(&self, other: &Self) -> bool {
        let objects = |state: &Self| {
            let mut objects = Vec::new();
            state.each(|collection, key, object| {
                objects.push((Arc::clone(collection), Arc::clone(key), object.version()));
            });
            objects
        };
        self.version == other.version && objects(self) == objects(other)
    }

    /// Returns the newest version whose change of a collection is forgotten, however many of others are.
    fn forgotten(&self, collection: &str) -> u64 {
        self.collections.get(collection).map_or(0, |c| c.forgotten).max(self.restored)
    }

    /// Applies a change that has so many bytes on the disk.
    pub(super) fn apply(&mut self, change: Arc<Change>, on_disk: usize) {
        self.version = change.version();
        let objects = &mut self.collection(&change.collection).objects;
        if change.deleted {
            objects.remove(&change.key);
        } else {
            objects.insert(Arc::clone(&change.key), change.object.clone());
        }
        self.remember(change, on_disk);
    }

    fn collection(&mut self, name: &Arc<str>) -> &mut Collection {
        self.collections.entry(Arc::clone(name)).or_default()
    }
}

type Item<'a> = (&'a Arc<str>, &'a Object);

fn owned((key, object): Item<'_>) -> (Arc<str>, Object) {
    (Arc::clone(key), object.clone())
}

impl Collection {
    fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = Item<'a>> + 'a {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let all = self.objects.range::<str, _>((from, Bound::Unbounded));
        all.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns the objects as they were at a version: those of now, with the changes since then undone.
    fn as_of(&self, version: u64, prefix: &str, after: Option<&str>) -> Vec<(Arc<str>, Object)> {
        let since = self.changes.partition_point(|c| c.version() <= version);
        let mut objects: BTreeMap<Arc<str>, Object> =
            self.range(prefix, after).map(owned).collect();
        for change in self.changes.range(since..).rev() {
            let is_asked = change.key.starts_with(prefix) && after.is_none_or(|a| *change.key > *a);
            match &change.before {
                _ if !is_asked => {}
                Some(before) => drop(objects.insert(Arc::clone(&change.key), before.clone())),
                None => drop(objects.remove(&change.key)),
            }
        }
        objects.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
