//! How do objects and changes get on the disk, and back?
//!
//! `log` has the recent changes, those that go to the disk together in one value, and `objects` everything as it was before
//! the first of them. So a commit appends one value, however many objects it changes; what happened since `objects` is
//! played again when the file is opened; and changes that are forgotten are folded into `objects`, of each object the last
//! one only. So `objects` may lag behind the forgotten changes that are still in the log, and what is not forgotten begins after
//! the last of those. Every value ends in a checksum.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use tokio::sync::oneshot;

use super::backend::Backend;
use super::pack::Packer;
use super::state::State;
use super::{Change, History, Object, Shared, StoreError, Write, WriteError};
use crate::files;

mod codec;

/// The first format kept the changes by what they undo, and `objects` at the newest of them.
const FORMAT: u64 = 2;
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// By the version of the first change of each value.
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// Objects are all in memory, so redb only needs room for the pages it is working on.
const CACHE: usize = 16 << 20;
/// How many writes go to the disk together at most.
const TOGETHER: usize = 4096;
/// Others that write at the same time are waited for as long as some come within this time, so often at most.
const COMPANY: Duration = Duration::from_micros(400);
const OFTEN: usize = 8;
/// Changes are folded by the thousand, which is cheaper than one by one.
const FOLD: usize = 1024;
/// When nobody has written for this long, there is time for it.
const IDLE: Duration = Duration::from_millis(50);
/// Where more changes than this wait for such a time, each commit folds more than it brings.
const UNFOLDED: usize = 64 * FOLD;

/// A write, and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) write: Write,
    pub(super) done: oneshot::Sender<Result<Object, WriteError>>,
}

/// The open file.
pub(super) struct Disk {
    database: Database,
    /// The version of the last change of each value in the log.
    log: VecDeque<u64>,
    /// The changes of the log that are forgotten.
    forgotten: VecDeque<Arc<Change>>,
    /// The version of the last of them, for each object.
    last: HashMap<Place, u64>,
    /// How many of them may wait for a quiet time.
    most_forgotten: usize,
}

/// A collection and a key.
type Place = (Arc<str>, Arc<str>);

/// What can be folded: so many changes, which are so many values of the log, up to a version.
#[derive(Clone, Copy)]
struct Foldable {
    changes: usize,
    values: usize,
    up_to: u64,
}

/// Opens the file in a directory and reads it all; one that is damaged or too new is left alone.
pub(super) fn open(dir: &Path, history: History) -> Result<(Disk, State, Packer), StoreError> {
    let path = dir.join("objects.redb");
    let shown = path.display().to_string();
    let io = |source| StoreError::Io { path: shown.clone(), source };
    let damaged = |what: String| StoreError::Damaged { path: shown.clone(), what };
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(io)?;
    files::sync_directory_of(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(StoreError::InUse(dir.display().to_string()));
        }
        Err(std::fs::TryLockError::Error(source)) => return Err(io(source)),
    }
    let backend = Backend::on_trial(file).map_err(io)?;
    // redb takes some damage for a mistake in the program, and panics.
    let read = catch_unwind(AssertUnwindSafe(|| read(backend.clone(), history)));
    let read = read.map_err(|_| damaged("its pages contradict each other".to_owned()))?;
    let (disk, state, packer) = read.map_err(|why| match why {
        Unreadable::Newer(found) => StoreError::Newer { path: shown.clone(), found, known: FORMAT },
        Unreadable::Damaged(what) => damaged(what),
    })?;
    backend.accept().map_err(io)?;
    Ok((disk, state, packer))
}

/// Why a file cannot be read.
enum Unreadable {
    Newer(u64),
    Damaged(String),
}

impl<E: std::error::Error> From<E> for Unreadable {
    fn from(err: E) -> Self {
        Self::Damaged(err.to_string())
    }
}

fn read(backend: Backend, history: History) -> Result<(Disk, State, Packer), Unreadable> {
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    prepare(&database)?;
    let reading = database.begin_read()?;
    let meta = reading.open_table(META)?;
    let version = |of: &str| Ok::<_, Unreadable>(meta.get(of)?.map_or(1, |v| v.value()));
    let (newest, folded) = (version("version")?, version("objects")?);
    let packer = Packer::default();
    let mut objects: Vec<(Arc<str>, Arc<str>, Object)> = Vec::new();
    for entry in reading.open_table(OBJECTS)?.iter()? {
        let (place, stored) = entry?;
        let broken = || Unreadable::Damaged(format!("object {:?} is not whole", place.value()));
        let (mut collection, key) = codec::split(place.value()).ok_or_else(broken)?;
        // The name of a collection is shared by all that is in it.
        if let Some((last, ..)) = objects.last().filter(|(last, ..)| *last == collection) {
            collection = Arc::clone(last);
        }
        let object = codec::object(stored.value()).ok_or_else(broken)?;
        let object = object.packed(&packer, &collection);
        objects.push((collection, key, object));
    }
    let mut state = State::restored(folded, objects);
    let mut log = VecDeque::new();
    for entry in reading.open_table(LOG)?.iter()? {
        let (first, stored) = entry?;
        let broken = || Unreadable::Damaged(format!("change {} is not whole", first.value()));
        let changes = codec::changes(stored.value()).ok_or_else(broken)?;
        if first.value() != state.version() + 1 {
            return Err(broken());
        }
        for (at, mut write) in changes {
            write.body = write.body.map(|body| body.packed(&packer, &write.collection));
            let now = state.get(&write.collection, &write.key);
            write.expected = now.map(Object::version);
            let change = Shared::resolve(write, now, state.version() + 1, at);
            state.apply(Arc::new(change.map_err(|_| broken())?));
        }
        log.push_back(state.version());
    }
    if state.version() != newest {
        let why = format!("its changes end at {}, not at {newest}", state.version());
        return Err(Unreadable::Damaged(why));
    }
    let mut forgotten = state.forget_to(version("forgotten")?);
    forgotten.extend(state.trim(i64::MIN, &history));
    drop((meta, reading));
    let (last, most_forgotten) = (HashMap::new(), UNFOLDED);
    let mut disk = Disk { database, log, forgotten: VecDeque::new(), last, most_forgotten };
    disk.note_forgotten(forgotten);
    Ok((disk, state, packer))
}

/// Makes the tables of a new file, and refuses a newer one.
fn prepare(database: &Database) -> Result<(), Unreadable> {
    let writing = database.begin_write()?;
    {
        let mut meta = writing.open_table(META)?;
        let format = meta.get("format")?.map(|f| f.value());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => return Err(Unreadable::Newer(newer)),
            Some(1) => {
                let version = meta.get("version")?.map_or(1, |v| v.value());
                meta.insert("objects", version)?;
                meta.insert("format", FORMAT)?;
                writing.delete_table(TableDefinition::<u64, &[u8]>::new("changes"))?;
            }
            Some(other) => return Err(Unreadable::Damaged(format!("it has format {other}"))),
            None => {
                meta.insert("format", FORMAT)?;
                meta.insert("version", 1)?;
                meta.insert("objects", 1)?;
            }
        }
        writing.open_table(OBJECTS)?;
        writing.open_table(LOG)?;
    }
    writing.commit()?;
    Ok(())
}

impl Disk {
    /// Stores what is queued, batch after batch, until the queue is closed.
    pub(super) fn run(mut self, queue: &mpsc::Receiver<Job>, shared: &Shared) {
        let (mut last, mut can_fold) = (1, true);
        loop {
            let is_behind = can_fold && self.forgotten.len() >= FOLD;
            let pause = if is_behind { IDLE } else { Duration::from_secs(30) };
            match queue.recv_timeout(pause) {
                Ok(first) => {
                    let jobs = gather(first, queue, last);
                    last = jobs.len();
                    self.together(jobs, shared);
                    can_fold = true;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.note_forgotten(shared.show(Vec::new()));
                    can_fold = self.fold();
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Stores writes in one transaction, then shows and acknowledges them.
    fn together(&mut self, jobs: Vec<Job>, shared: &Shared) {
        let mut waiting = Vec::with_capacity(jobs.len());
        let writes = jobs.into_iter().map(|job| {
            waiting.push(job.done);
            job.write
        });
        let (changes, answers) = resolve(writes, shared);
        if let Err(why) = self.store(&changes) {
            tracing::error!(error = why, "could not store {} changes", changes.len());
            let failed = || Err(WriteError::Failed(why.clone()));
            waiting.into_iter().for_each(|done| drop(done.send(failed())));
            return;
        }
        self.note_forgotten(shared.show(changes));
        for (done, answer) in waiting.into_iter().zip(answers) {
            // Who no longer waits does not need the answer.
            let _ = done.send(answer);
        }
    }

    fn store(&mut self, changes: &[Arc<Change>]) -> Result<(), String> {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(()) };
        let stored = codec::write_changes(changes);
        let is_behind = self.forgotten.len() >= self.most_forgotten;
        let foldable = if is_behind { self.foldable(2 * changes.len()) } else { None };
        self.transact(|writing| {
            writing.open_table(LOG)?.insert(first.version(), stored.as_slice())?;
            writing.open_table(META)?.insert("version", last.version())?;
            foldable.map_or(Ok(()), |foldable| self.write_folded(foldable, writing))
        })?;
        self.log.push_back(last.version());
        foldable.into_iter().for_each(|foldable| self.forget_folded(foldable));
        Ok(())
    }

    /// Folds forgotten changes into the objects; gives whether it could.
    fn fold(&mut self) -> bool {
        let Some(foldable) = self.foldable(FOLD) else { return false };
        if let Err(why) = self.transact(|writing| self.write_folded(foldable, writing)) {
            // They stay in the log, and are folded later.
            tracing::warn!(error = why, "could not take old changes off the disk");
            return false;
        }
        self.forget_folded(foldable);
        true
    }

    /// Finds about so many forgotten changes. The log loses whole values only, and one of more changes goes as a whole.
    fn foldable(&self, about: usize) -> Option<Foldable> {
        let all = self.forgotten.back();
        let values_to = |change: Option<&Arc<Change>>| {
            change.map_or(0, |to| self.log.partition_point(|last| *last <= to.version()))
        };
        let last = self.forgotten.get(about.saturating_sub(1)).or(all);
        let values = values_to(last).max(values_to(all).min(1));
        let up_to = *self.log.get(values.checked_sub(1)?)?;
        let changes = self.forgotten.partition_point(|change| change.version() <= up_to);
        Some(Foldable { changes, values, up_to })
    }

    /// Takes changes into the objects and off the log. One that a later forgotten one of the same object follows is passed over: that
    /// one is in the log until it is taken into the objects itself, and nobody asks any more what was before it. New objects are
    /// not passed over, so that what the log deletes is there.
    fn write_folded(
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

    fn note_forgotten(&mut self, changes: Vec<Arc<Change>>) {
        for change in changes {
            self.last.insert(change.place(), change.version());
            self.forgotten.push_back(change);
        }
    }

    fn forget_folded(&mut self, Foldable { changes, values, .. }: Foldable) {
        for change in self.forgotten.drain(..changes) {
            if let Entry::Occupied(last) = self.last.entry(change.place())
                && *last.get() == change.version()
            {
                last.remove();
            }
        }
        self.log.drain(..values);
    }

    fn transact(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), String> {
        let writing = self.database.begin_write().map_err(|err| err.to_string())?;
        work(&writing).map_err(|err| err.to_string())?;
        writing.commit().map_err(|err| err.to_string())
    }
}

/// Takes what is queued. One commit for many costs little more than one for one, so others are waited for as long as they
/// keep coming; but only until there are as many as the `last` time, since those who write and wait are all there then.
fn gather(first: Job, queue: &mpsc::Receiver<Job>, last: usize) -> Vec<Job> {
    let mut jobs = vec![first];
    let take = |jobs: &mut Vec<Job>| jobs.extend(queue.try_iter().take(TOGETHER - jobs.len()));
    take(&mut jobs);
    for _ in 0..OFTEN {
        let before = jobs.len();
        if before >= last {
            break;
        }
        std::thread::sleep(COMPANY);
        take(&mut jobs);
        if jobs.len() == before {
            break;
        }
    }
    jobs
}

type Answers = Vec<Result<Object, WriteError>>;

/// Checks each write against what the writes before it leave, and gives the changes of those that hold.
fn resolve(writes: impl Iterator<Item = Write>, shared: &Shared) -> (Vec<Arc<Change>>, Answers) {
    let at = shared.clock.now().as_millisecond();
    let state = shared.read();
    let mut version = state.version();
    let mut pending: BTreeMap<(Arc<str>, Arc<str>), Option<Object>> = BTreeMap::new();
    let mut changes = Vec::new();
    let mut answers = Vec::new();
    for write in writes {
        let place = (write.collection.clone(), write.key.clone());
        let now = match pending.get(&place) {
            Some(pending) => pending.as_ref(),
            None => state.get(&write.collection, &write.key),
        };
        let change = Shared::resolve(write, now, version + 1, at);
        answers.push(change.map(|change| {
            version = change.version();
            let object = change.object.clone();
            pending.insert(place, (!change.deleted).then(|| object.clone()));
            changes.push(Arc::new(change));
            object
        }));
    }
    (changes, answers)
}

#[cfg(test)]
mod tests;
