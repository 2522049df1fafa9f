//! Commits waiting writes together.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::{Body, Change, Object, Shared, Write, WriteError};
use super::{Disk, LOG, LogValue, META, codec};

/// The most writes in one commit.
pub(super) const TOGETHER: usize = 4096;
/// No more writes are added to a commit once its objects have this many bytes.
pub(super) const TOGETHER_BYTES: usize = 16 << 20;
/// How long to wait for further concurrent writes after each that arrives, and how often at most.
const COMPANY: Duration = Duration::from_micros(400);
const OFTEN: usize = 8;
/// After this long without writes, there is time for deferred work.
const IDLE: Duration = Duration::from_millis(50);
const QUIET: Duration = Duration::from_secs(30);

/// A write, and the channel for its result.
#[derive(Debug)]
pub(in crate::store) struct Job {
    pub(in crate::store) write: Write,
    pub(in crate::store) done: oneshot::Sender<Result<Object, WriteError>>,
}

impl Job {
    fn bytes(&self) -> usize {
        self.write.body.as_ref().map_or(0, Body::size)
    }
}

impl Disk {
    /// Stores the queued writes, batch by batch, until the queue is closed.
    pub(in crate::store) fn run(mut self, queue: &mpsc::Receiver<Job>, shared: &Shared) {
        let (mut last, mut can_fold) = (1, true);
        loop {
            let pause = match self.retry.after() {
                Some(retry_after) => retry_after,
                None if can_fold && self.has_to_fold() => IDLE,
                None => QUIET,
            };
            match queue.recv_timeout(pause) {
                Ok(job) if self.has_failed() => refuse([job.done], shared),
                Ok(first) => {
                    let jobs = gather(first, queue, last);
                    last = jobs.len();
                    self.together(jobs, shared);
                    can_fold = true;
                }
                Err(mpsc::RecvTimeoutError::Timeout) if self.has_failed() => self.recover(shared),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.log.forget(shared.show(Vec::new(), 0));
                    can_fold = self.fold(shared);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Stores writes in one transaction, then shows and acknowledges them.
    pub(super) fn together(&mut self, jobs: Vec<Job>, shared: &Shared) {
        let mut waiting = Vec::with_capacity(jobs.len());
        let writes = jobs.into_iter().map(|job| {
            waiting.push(job.done);
            job.write
        });
        let (changes, answers) = resolve(writes, shared);
        let each = match self.store(&changes) {
            Ok(bytes) => bytes / changes.len().max(1),
            Err(err) => {
                self.fail(&err, shared);
                return refuse(waiting, shared);
            }
        };
        self.log.forget(shared.show(changes, each));
        for (done, answer) in waiting.into_iter().zip(answers) {
            // A writer that no longer waits needs no answer.
            let _ = done.send(answer);
        }
    }

    /// Appends changes to the log, and returns how many bytes they have there.
    pub(super) fn store(&mut self, changes: &[Arc<Change>]) -> Result<usize, redb::Error> {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(0) };
        let stored = codec::write_changes(changes);
        let foldable = self.foldable_with(changes.len(), stored.len());
        self.transact(|writing| {
            writing.open_table(LOG)?.insert(first.version(), stored.as_slice())?;
            writing.open_table(META)?.insert("version", last.version())?;
            foldable.map_or(Ok(()), |foldable| self.log.write_folded(foldable, writing))
        })?;
        self.retry.succeeded();
        self.log.push(LogValue { last: last.version(), bytes: stored.len() });
        foldable.into_iter().for_each(|foldable| self.log.remove_folded(foldable));
        Ok(stored.len())
    }
}

/// Reports to the writers that nothing was written.
fn refuse(
    waiting: impl IntoIterator<Item = oneshot::Sender<Result<Object, WriteError>>>,
    shared: &Shared,
) {
    let why = shared.trouble().unwrap_or_default();
    for done in waiting {
        let _ = done.send(Err(WriteError::Failed(why.clone())));
    }
}

/// Takes the queued writes. A commit of many writes costs little more than one of a single write, so this waits while writes keep
/// arriving, but only until there are as many as the `last` time: then all concurrent writers are probably waiting.
pub(super) fn gather(first: Job, queue: &mpsc::Receiver<Job>, last: usize) -> Vec<Job> {
    let mut bytes = first.bytes();
    let mut jobs = vec![first];
    let mut take = |jobs: &mut Vec<Job>| {
        while jobs.len() < TOGETHER
            && bytes < TOGETHER_BYTES
            && let Ok(job) = queue.try_recv()
        {
            bytes += job.bytes();
            jobs.push(job);
        }
    };
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

/// Checks each write against the result of the writes before it, and returns the changes of those that are valid.
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
