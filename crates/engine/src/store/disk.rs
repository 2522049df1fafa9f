//! How do objects and changes get on the disk, and back?
//!
//! `objects` has the present, `changes` what to undo to get to the past: a change stores the object before it, since
//! the one after it is there already, in `objects` or in the next change. Every value ends in a checksum.

use std::collections::BTreeMap;
use std::fs::File;
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
use codec::Stored;

mod codec;

const FORMAT: u64 = 1;
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const CHANGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("changes");

/// Objects are all in memory, so redb only needs room for the pages it is working on.
const CACHE: usize = 16 << 20;
/// How many writes go to the disk together at most.
const TOGETHER: usize = 4096;
/// Changes are taken off the disk by the thousand, which is cheaper than one by one.
const FORGET: usize = 1024;

/// A write, and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) write: Write,
    pub(super) done: oneshot::Sender<Result<Object, WriteError>>,
}

/// The open file.
pub(super) struct Disk {
    database: Database,
}

/// Opens the file in a directory and reads it all; one that is damaged or too new is left alone.
pub(super) fn open(dir: &Path, history: History) -> Result<(Disk, State, Packer), StoreError> {
    let path = dir.join("objects.redb");
    let shown = path.display().to_string();
    let io = |source| StoreError::Io { path: shown.clone(), source };
    let damaged = |what: String| StoreError::Damaged { path: shown.clone(), what };
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(io)?;
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
    let (database, state, packer) = read.map_err(|why| match why {
        Unreadable::Newer(found) => StoreError::Newer { path: shown.clone(), found, known: FORMAT },
        Unreadable::Damaged(what) => damaged(what),
    })?;
    backend.accept().map_err(io)?;
    Ok((Disk { database }, state, packer))
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

fn read(backend: Backend, history: History) -> Result<(Database, State, Packer), Unreadable> {
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    prepare(&database)?;
    let reading = database.begin_read()?;
    let version = reading.open_table(META)?.get("version")?.map_or(1, |v| v.value());
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
    let mut stored = Vec::new();
    for entry in reading.open_table(CHANGES)?.iter()? {
        let (at, change) = entry?;
        let broken = || Unreadable::Damaged(format!("change {} is not whole", at.value()));
        let mut change = codec::change(change.value()).ok_or_else(broken)?;
        change.before = change.before.map(|before| before.packed(&packer, &change.collection));
        stored.push((at.value(), change));
    }
    let forgotten = stored.first().map_or(version, |(first, _)| first - 1);
    let changes = replay(&objects, stored, version)?;
    let mut state = State::restored(version, forgotten, objects);
    state.restore_changes(changes);
    drop(state.trim(i64::MIN, &history));
    drop(reading);
    Ok((database, state, packer))
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
            Some(other) => return Err(Unreadable::Damaged(format!("it has format {other}"))),
            None => {
                meta.insert("format", FORMAT)?;
                meta.insert("version", 1)?;
            }
        }
        writing.open_table(OBJECTS)?;
        writing.open_table(CHANGES)?;
    }
    writing.commit()?;
    Ok(())
}

/// Goes back in time from the present, giving each change the object that it led to.
fn replay(
    objects: &[(Arc<str>, Arc<str>, Object)],
    stored: Vec<(u64, Stored)>,
    version: u64,
) -> Result<Vec<Change>, Unreadable> {
    let place = |(c, k, o): &(Arc<str>, Arc<str>, Object)| ((c.clone(), k.clone()), o.clone());
    let mut after: BTreeMap<_, _> = objects.iter().map(place).collect();
    let mut changes = Vec::with_capacity(stored.len());
    let mut expected = version;
    for (at, change) in stored.into_iter().rev() {
        let broken = || Unreadable::Damaged(format!("change {at} does not fit its neighbours"));
        let key = (change.collection.clone(), change.key.clone());
        let object = match &change.before {
            Some(before) if change.deleted => before.at(at),
            _ => after.get(&key).cloned().ok_or_else(broken)?,
        };
        if at != expected || object.version() != at {
            return Err(broken());
        }
        match &change.before {
            Some(before) => drop(after.insert(key, before.clone())),
            None => drop(after.remove(&key)),
        }
        let Stored { happened_at, collection, key, before, deleted } = change;
        changes.push(Change::new(happened_at, collection, key, object, before, deleted));
        expected = at - 1;
    }
    changes.reverse();
    Ok(changes)
}

impl Disk {
    /// Stores what is queued, batch after batch, until the queue is closed.
    pub(super) fn run(self, queue: &mpsc::Receiver<Job>, shared: &Shared) {
        loop {
            match queue.recv_timeout(Duration::from_secs(30)) {
                Ok(first) => {
                    let rest = queue.try_iter().take(TOGETHER - 1);
                    self.together(std::iter::once(first).chain(rest).collect(), shared);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => self.forget(shared),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Stores writes in one transaction, then shows and acknowledges them.
    fn together(&self, jobs: Vec<Job>, shared: &Shared) {
        let mut waiting = Vec::with_capacity(jobs.len());
        let writes = jobs.into_iter().map(|job| {
            waiting.push(job.done);
            job.write
        });
        let (changes, answers) = resolve(writes, shared);
        let stored = if changes.is_empty() { Ok(()) } else { self.store(&changes, shared) };
        if let Err(why) = stored {
            tracing::error!(error = why, "could not store {} changes", changes.len());
            let failed = || Err(WriteError::Failed(why.clone()));
            waiting.into_iter().for_each(|done| drop(done.send(failed())));
            return;
        }
        shared.show(changes);
        for (done, answer) in waiting.into_iter().zip(answers) {
            // Who no longer waits does not need the answer.
            let _ = done.send(answer);
        }
    }

    fn store(&self, changes: &[Arc<Change>], shared: &Shared) -> Result<(), String> {
        let now = shared.clock.now().as_millisecond();
        let (forgotten, overdue) = {
            let state = shared.read();
            (state.forgotten(), state.overdue(now, &shared.history, changes.len()))
        };
        self.transact(|writing| {
            let mut objects = writing.open_table(OBJECTS)?;
            let mut log = writing.open_table(CHANGES)?;
            for change in changes {
                let place = codec::join(&change.collection, &change.key);
                if change.deleted {
                    objects.remove(place.as_str())?;
                } else {
                    let stored = codec::write_object(&change.object);
                    objects.insert(place.as_str(), stored.as_slice())?;
                }
                log.insert(change.version(), codec::write_change(change).as_slice())?;
            }
            if overdue >= FORGET {
                log.retain_in(..=forgotten + overdue as u64, |_, _| false)?;
            }
            let newest = changes.last().map_or(1, |c| c.version());
            writing.open_table(META)?.insert("version", newest)?;
            Ok(())
        })
    }

    /// Takes old changes off the disk when nothing else happens.
    fn forget(&self, shared: &Shared) {
        shared.show(Vec::new());
        let forgotten = shared.read().forgotten();
        let done = self.transact(|writing| {
            writing.open_table(CHANGES)?.retain_in(..=forgotten, |_, _| false)?;
            Ok(())
        });
        if let Err(why) = done {
            tracing::warn!(error = why, "could not take old changes off the disk");
        }
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
