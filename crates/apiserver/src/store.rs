//! The store: all objects, and their recent changes.
//!
//! All objects are in memory, sorted by collection, namespace and name, together with the recent changes that watchers
//! read. On disk both are in one redb file. A write is visible, and acknowledged, only once it is on disk: one thread
//! takes whatever writes are waiting, stores them in one transaction, and then shows them all. No lock is held while
//! the disk works.

mod backend;
mod disk;
mod medium;
mod object;
mod pack;
mod partial;
mod state;
mod subscription;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, mpsc};
use std::time::Duration;

use process::{Clock, Supervisor};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};

pub(crate) use object::{Body, Object, Unreadable};
pub(crate) use partial::{PartialObject, Parts, Unparsed};
pub(crate) use state::{Change, Page};
pub(crate) use subscription::Subscription;

use pack::Packer;
use state::State;
use subscription::Subscribers;

/// Identifies a stored object: its collection, and its namespace and name as `Resource::key` joins them.
pub(crate) type ObjectKey = (Arc<str>, Arc<str>);

/// How much of the past is kept for watchers and for reading lists page by page.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Changes older than this are forgotten.
    pub keep_for: Duration,
    /// No more than this many changes are kept.
    pub at_most: usize,
    /// Changes that take more than this many bytes together, as they are packed, are not kept. What a watcher has yet to read is
    /// kept up to four times this size, or 16 MiB if that is more. On the disk, changes that are no longer kept wait for a quiet
    /// time to leave the log, which may therefore reach twice this size, or the size of what is kept for watchers if that is
    /// more; the latest commit comes on top.
    pub bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { keep_for: Duration::from_secs(300), at_most: 100_000, bytes: 64 << 20 }
    }
}

/// An error of the data directory, or of the disk below it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has it open.
    #[error("{0} is in use by another process; stop it first, or give another --data directory")]
    InUse(String),
    /// It was written by a newer Plimsoll.
    #[error(
        "{path} has format {found}, and this version reads only up to {known}; nothing was changed"
    )]
    Newer { path: String, found: u64, known: u64 },
    /// It is not what was written.
    #[error("{path} is damaged and was left as it is: {what}")]
    Damaged { path: String, what: String },
    /// The disk refused.
    #[error("could not use {path}")]
    Io { path: String, source: std::io::Error },
}

/// Why a write did not happen.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The object is not at the version that the write expects.
    Conflict,
    /// The disk refused; it may take the same write later.
    Failed(String),
}

/// The requested version is no longer kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired;

/// One change of one object, with a precondition on its version.
#[derive(Debug)]
pub(crate) struct Write {
    /// The collection.
    pub(crate) collection: Arc<str>,
    /// Namespace and name, as `Resource::key` joins them.
    pub(crate) key: Arc<str>,
    /// The version that must be there; `None`: nothing.
    pub(crate) expected: Option<u64>,
    /// The object afterwards; `None` deletes it.
    pub(crate) body: Option<Body>,
}

/// Every object, and the recent changes.
pub(crate) struct Store {
    shared: Arc<Shared>,
    writer: Writer,
}

/// The state that readers and the writer share.
struct Shared {
    state: RwLock<State>,
    subscribers: Mutex<Subscribers>,
    feeds: Mutex<Vec<UnboundedSender<Arc<Change>>>>,
    clock: Clock,
    history: History,
    packer: Packer,
    /// Why nothing can be written at present.
    trouble: watch::Sender<Option<String>>,
}

enum Writer {
    /// In memory: a write happens on the thread that sends it, which waits for no other.
    Memory(Mutex<()>),
    /// On disk: writes queue for the committing thread.
    Disk(Mutex<Option<Committer>>),
}

/// The way to the committing thread.
struct Committer {
    jobs: mpsc::Sender<disk::Job>,
    thread: std::thread::JoinHandle<()>,
}

impl Store {
    /// Opens a store that forgets everything when it is dropped.
    pub(crate) fn in_memory(clock: Clock, history: History) -> Self {
        let shared = Shared::new(State::default(), Packer::default(), clock, history);
        Self { shared, writer: Writer::Memory(Mutex::new(())) }
    }

    /// Opens the store in a directory.
    pub(crate) fn on_disk(
        dir: &Path,
        clock: Clock,
        history: History,
        supervisor: &Supervisor,
    ) -> Result<Self, StoreError> {
        let opened = disk::open(dir, history)?;
        Self::running(opened, clock, history, supervisor)
            .map_err(|source| StoreError::Io { path: dir.display().to_string(), source })
    }

    /// Starts the committing thread of what was opened.
    fn running(
        (disk, state, packer): (disk::Disk, State, Packer),
        clock: Clock,
        history: History,
        supervisor: &Supervisor,
    ) -> std::io::Result<Self> {
        let shared = Shared::new(state, packer, clock, history);
        let (jobs, queue) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread =
            supervisor.spawn_thread("plimsoll-store", move || disk.run(&queue, &of_thread))?;
        let committer = Mutex::new(Some(Committer { jobs, thread }));
        Ok(Self { shared, writer: Writer::Disk(committer) })
    }

    /// Returns the version of the newest change.
    pub(crate) fn version(&self) -> u64 {
        self.shared.read().version()
    }

    /// Returns an object.
    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Object> {
        self.shared.read().get(collection, key).cloned()
    }

    /// Lists objects in order of their keys, as they are now or were at a version.
    pub(crate) fn list(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
    ) -> Result<Page, Expired> {
        self.shared.read().list(collection, prefix, after, limit, at)
    }

    /// Returns the changes of a collection after a version, oldest first, and the version they reach up to: no more than so
    /// many, and no more after so many bytes.
    pub(crate) fn changes(
        &self,
        collection: &str,
        after: u64,
        at_most: usize,
        bytes: usize,
    ) -> Result<(Vec<Arc<Change>>, u64), Expired> {
        self.shared.read().changes(collection, after, at_most, bytes)
    }

    /// Subscribes to the changes of a collection from now on.
    pub(crate) fn subscribe(&self, collection: &Arc<str>) -> Subscription {
        Subscription::new(&self.shared, collection, self.version())
    }

    /// Returns why nothing can be written at present; `None` if it can.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// Waits until it can.
    pub(crate) async fn until_writable(&self) {
        let _ = self.shared.trouble.subscribe().wait_for(Option::is_none).await;
    }

    /// Returns every change of every collection from now on, in order. The receiver has to keep up.
    pub(crate) fn feed(&self) -> UnboundedReceiver<Arc<Change>> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        self.shared.feeds.lock().expect("no one panics while holding it").push(sender);
        receiver
    }

    /// Shows every object.
    pub(crate) fn each(&self, see: impl FnMut(&Arc<str>, &Arc<str>, &Object)) {
        self.shared.read().each(see);
    }

    /// Shows every object of a collection.
    pub(crate) fn each_of(&self, collection: &str, mut see: impl FnMut(&Arc<str>, &Object)) {
        let page = self.list(collection, "", None, usize::MAX, None);
        page.map(|page| page.items)
            .unwrap_or_default()
            .iter()
            .for_each(|(key, object)| see(key, object));
    }

    /// Makes a change, and waits until it is on the disk. Returns the changed object, or the last state of a deleted one.
    pub(crate) async fn write(&self, mut write: Write) -> Result<Object, WriteError> {
        write.body = write.body.map(|body| body.packed(&self.shared.packer, &write.collection));
        let body = write.body.clone();
        let stored = self.commit(write).await?;
        Ok(match body {
            Some(body) => body.whole_at(stored.version()),
            None => stored,
        })
    }

    async fn commit(&self, write: Write) -> Result<Object, WriteError> {
        match &self.writer {
            Writer::Memory(lock) => {
                let _guard = lock.lock().expect("no one panics while holding it");
                self.shared.write_in_memory(write)
            }
            Writer::Disk(committer) => {
                let (done, answer) = oneshot::channel();
                let closed = || WriteError::Failed("is closed".to_owned());
                {
                    let committer = committer.lock().expect("no one panics while holding it");
                    let jobs = committer.as_ref().map(|c| &c.jobs).ok_or_else(closed)?;
                    jobs.send(disk::Job { write, done }).map_err(|_| closed())?;
                }
                answer.await.map_err(|_| closed())?
            }
        }
    }

    /// Stores the queued writes and closes the file. Later writes fail.
    pub(crate) fn close(&self) {
        let Writer::Disk(committer) = &self.writer else { return };
        let committer = committer.lock().expect("no one panics while holding it").take();
        if let Some(Committer { jobs, thread }) = committer {
            // The thread ends when its queue is empty and closed, and closes the file.
            drop(jobs);
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn new(state: State, packer: Packer, clock: Clock, history: History) -> Arc<Self> {
        let (state, subscribers, feeds) = (RwLock::new(state), Mutex::default(), Mutex::default());
        let trouble = watch::Sender::default();
        Arc::new(Self { state, subscribers, feeds, clock, history, packer, trouble })
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    fn set_trouble(&self, why: Option<String>) {
        self.trouble.send_replace(why);
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().expect("no one panics while holding it")
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no one panics while holding it")
    }

    /// Checks a write against the stored object and returns its change.
    fn resolve(
        write: Write,
        now: Option<&Object>,
        version: u64,
        at: i64,
    ) -> Result<Change, WriteError> {
        if now.map(Object::version) != write.expected {
            return Err(WriteError::Conflict);
        }
        let place = (write.collection, write.key);
        Change::new(at, place, version, write.body, now.cloned()).ok_or(WriteError::Conflict)
    }

    fn write_in_memory(&self, write: Write) -> Result<Object, WriteError> {
        let at = self.clock.now().as_millisecond();
        let change = {
            let state = self.read();
            let now = state.get(&write.collection, &write.key);
            Self::resolve(write, now, state.version() + 1, at)?
        };
        let object = change.object.clone();
        drop(self.show(vec![Arc::new(change)], 0));
        Ok(object)
    }

    /// Makes changes visible, each of which has so many bytes on the disk, and wakes the watchers. Returns the changes that are
    /// dropped for them.
    fn show(&self, changes: Vec<Arc<Change>>, on_disk: usize) -> Vec<Arc<Change>> {
        let mut reached: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let for_feeds = changes.clone();
        let now = self.clock.now().as_millisecond();
        let forgotten = {
            let mut state = self.state.write().expect("no one panics while holding it");
            state.advance(now);
            for change in changes {
                reached.insert(Arc::clone(&change.collection), change.version());
                state.apply(change, on_disk);
            }
            let subscribers = self.subscribers();
            state.trim(&self.history, |collection, missed| subscribers.read_to(collection, missed))
        };
        self.feeds
            .lock()
            .expect("no one panics while holding it")
            .retain(|feed| for_feeds.iter().all(|change| feed.send(Arc::clone(change)).is_ok()));
        self.subscribers().wake(reached);
        forgotten
    }
}
