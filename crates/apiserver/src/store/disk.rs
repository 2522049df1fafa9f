//! Writes objects and changes to disk, and reads them back.
//!
//! `log` has the recent changes, those that go to the disk together in one value, and `objects` everything as it was before
//! the first of them. So a commit appends one value, however many objects it changes; what happened since `objects` is
//! played again when the file is opened; and changes that are forgotten are folded into `objects`, of each object the last
//! one only. So `objects` may lag behind the forgotten changes that are still in the log, and what is not forgotten begins after
//! the last of those. Every value ends in a checksum.

mod codec;
mod commit;
mod fold;
mod recover;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::backend::Backend;
use super::medium::{DataFile, Medium};
use super::pack::Packer;
use super::state::State;
use super::{Change, History, Object, Shared, StoreError};
pub(super) use commit::Job;

/// The first format kept the changes by what they undo, and `objects` at the newest of them.
const FORMAT: u64 = 2;
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// By the version of the first change of each value.
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// Objects are all in memory, so redb only needs room for the pages it is working on.
const CACHE: usize = 16 << 20;

/// The open file.
pub(super) struct Disk {
    backend: Backend,
    /// `None` after it failed, until it is open again.
    database: Option<Database>,
    log: Log,
    history: History,
    /// How many forgotten changes may wait for a quiet time.
    most_forgotten: usize,
    retry: recover::Retry,
}

/// The state of the log.
#[derive(Default)]
struct Log {
    values: VecDeque<LogValue>,
    /// How many bytes they have.
    bytes: usize,
    /// The changes that are forgotten.
    forgotten: VecDeque<Arc<Change>>,
    /// The version of the last of them, for each object.
    last: HashMap<Place, u64>,
}

/// A value of the log: changes that went to the disk together.
#[derive(Clone, Copy)]
struct LogValue {
    /// The version of the last of them.
    last: u64,
    bytes: usize,
}

/// A collection and a key.
type Place = (Arc<str>, Arc<str>);

/// Which of the changes in a file are kept for watchers.
#[derive(Clone, Copy)]
enum Keep {
    /// As many as fit.
    Bounded(History),
    /// Those after a version, up to another; whatever comes after that was never acknowledged.
    Between { forgotten: u64, newest: u64 },
}

/// Opens the file in a directory and reads it all; one that is damaged or too new is left alone.
pub(super) fn open(dir: &Path, history: History) -> Result<(Disk, State, Packer), StoreError> {
    let path = dir.join("objects.redb");
    let file = DataFile::open(&path).map_err(|source| {
        if source.kind() == io::ErrorKind::WouldBlock {
            StoreError::InUse(dir.display().to_string())
        } else {
            StoreError::Io { path: path.display().to_string(), source }
        }
    })?;
    open_on(Arc::new(file), &path.display().to_string(), history)
}

/// Opens what is on a medium, which messages call `shown`.
fn open_on(
    medium: Arc<dyn Medium>,
    shown: &str,
    history: History,
) -> Result<(Disk, State, Packer), StoreError> {
    let io = |source| StoreError::Io { path: shown.to_owned(), source };
    let backend = Backend::on_trial(medium).map_err(io)?;
    let packer = Packer::default();
    let read = read(&backend, &packer, Keep::Bounded(history));
    let (database, log, state) = read.map_err(|why| match why {
        Unreadable::Newer(found) => {
            StoreError::Newer { path: shown.to_owned(), found, known: FORMAT }
        }
        Unreadable::Damaged(what) => StoreError::Damaged { path: shown.to_owned(), what },
    })?;
    backend.accept().map_err(io)?;
    let (database, retry) = (Some(database), recover::Retry::default());
    let most_forgotten = fold::UNFOLDED;
    let disk = Disk { backend, database, log, history, most_forgotten, retry };
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

/// Opens the database and reads all that is in it.
fn read(
    backend: &Backend,
    packer: &Packer,
    keep: Keep,
) -> Result<(Database, Log, State), Unreadable> {
    // redb takes some damage for a mistake in the program, and panics.
    let read = catch_unwind(AssertUnwindSafe(|| read_tables(backend.clone(), packer, keep)));
    read.unwrap_or_else(|_| Err(Unreadable::Damaged("its pages contradict each other".to_owned())))
}

fn read_tables(
    backend: Backend,
    packer: &Packer,
    keep: Keep,
) -> Result<(Database, Log, State), Unreadable> {
    let database = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
    prepare(&database, keep)?;
    let reading = database.begin_read()?;
    let meta = reading.open_table(META)?;
    let version = |of: &str| Ok::<_, Unreadable>(meta.get(of)?.map_or(1, |v| v.value()));
    let (newest, folded) = (version("version")?, version("objects")?);
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
        let object = object.packed(packer, &collection);
        objects.push((collection, key, object));
    }
    let mut state = State::restored(folded, objects);
    let mut log = Log::default();
    for entry in reading.open_table(LOG)?.iter()? {
        let (first, stored) = entry?;
        let broken = || Unreadable::Damaged(format!("change {} is not whole", first.value()));
        let changes = codec::changes(stored.value()).ok_or_else(broken)?;
        if first.value() != state.version() + 1 {
            return Err(broken());
        }
        let bytes = stored.value().len();
        let each = bytes / changes.len().max(1);
        for (at, mut write) in changes {
            write.body = write.body.map(|body| body.packed(packer, &write.collection));
            let now = state.get(&write.collection, &write.key);
            write.expected = now.map(Object::version);
            let change = Shared::resolve(write, now, state.version() + 1, at);
            state.apply(Arc::new(change.map_err(|_| broken())?), each);
        }
        log.push(LogValue { last: state.version(), bytes });
    }
    if state.version() != newest {
        let why = format!("its changes end at {}, not at {newest}", state.version());
        return Err(Unreadable::Damaged(why));
    }
    log.forget(state.forget_to(version("forgotten")?));
    log.forget(match keep {
        Keep::Bounded(history) => state.trim(&history, |_, _| u64::MAX),
        Keep::Between { forgotten, .. } => state.forget_to(forgotten),
    });
    drop((meta, reading));
    Ok((database, log, state))
}

/// Creates the tables of a new file, refuses a file of a newer version, and undoes writes that were never acknowledged.
fn prepare(database: &Database, keep: Keep) -> Result<(), Unreadable> {
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
        let mut log = writing.open_table(LOG)?;
        if let Keep::Between { newest, .. } = keep
            && meta.get("version")?.is_some_and(|stored| stored.value() > newest)
        {
            log.retain_in(newest + 1.., |_, _| false)?;
            meta.insert("version", newest)?;
        }
    }
    writing.commit()?;
    Ok(())
}

impl Disk {
    fn transact(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let Some(database) = &self.database else { return Err(redb::Error::PreviousIo) };
        let writing = database.begin_write()?;
        work(&writing)?;
        Ok(writing.commit()?)
    }
}

#[cfg(test)]
mod crash;
#[cfg(test)]
mod full;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
