//! The content of the file after it is opened again.

use std::sync::mpsc;
use std::time::Duration;

use process::{Clock, Supervisor};
use proptest::prelude::*;
use serde_json::json;
use tokio::sync::oneshot;

use super::super::{Body, Store, Subscription, Write, WriteError};
use super::commit::{TOGETHER, TOGETHER_BYTES, gather};
use super::fold::{FOLD, LOG_FACTOR};
use super::*;

const HISTORY: History =
    History { keep_for: Duration::from_secs(300), at_most: 40, bytes: 64 << 20 };

fn open(dir: &Path) -> Store {
    Store::on_disk(dir, Clock::system(), HISTORY, &Supervisor::new()).unwrap()
}

/// A state without readers, for the changes of a disk.
fn no_watchers() -> Arc<Shared> {
    Shared::new(State::default(), Packer::default(), Clock::system(), HISTORY)
}

/// Writes `keys` one after the other: existing objects change, and every fifth write deletes one.
async fn write(store: &Store, keys: &[u8], first: usize) {
    for (index, key) in keys.iter().enumerate() {
        let (collection, key) = (Arc::from("things"), Arc::from(format!("n/{key}")));
        let stored = store.get(&collection, &key);
        let text = format!("write {} of something that is always alike", first + index);
        let body = Body::new(&json!({"metadata": {"name": &*key}, "data": vec![text; 20]}));
        let is_gone = stored.is_some() && (first + index).is_multiple_of(5);
        let expected = stored.map(|stored| stored.version());
        let body = (!is_gone).then_some(body);
        store.write(Write { collection, key, expected, body }).await.unwrap();
    }
}

/// Returns all objects, and the retained changes.
fn contents(store: &Store) -> (Vec<String>, Vec<String>) {
    let mut objects = Vec::new();
    store.each(|_, key, object| {
        objects.push(format!("{key} {} {:?}", object.version(), object.body()))
    });
    let oldest =
        (1..=store.version()).find(|at| store.changes("things", *at, 1, 1).is_ok()).unwrap();
    let (changes, _) = store.changes("things", oldest, usize::MAX, usize::MAX).unwrap();
    let shown = changes.iter().map(|change| {
        let before = change.before.as_ref().map(|before| (before.version(), before.body()));
        format!("{} {} {:?} {before:?}", change.version(), change.deleted, change.object.body())
    });
    (objects, shown.collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_that_is_closed_and_opened_again_is_the_same(
        rounds in proptest::collection::vec(proptest::collection::vec(0..12_u8, 0..90), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut first = 0;
            for keys in rounds {
                let store = open(dir.path());
                write(&store, &keys, first).await;
                first += keys.len();
                let before = contents(&store);
                drop(store);
                assert_eq!(contents(&open(dir.path())), before);
            }
        });
    }
}

#[test]
fn queued_writes_are_committed_together_without_waiting_for_more() {
    let (jobs, queue) = mpsc::channel();
    let job = || Job {
        write: Write { collection: "c".into(), key: "k".into(), expected: None, body: None },
        done: oneshot::channel().0,
    };
    for (queued, last) in [(0, 1), (3, 2), (3, 4), (0, 100), (3, 100), (TOGETHER + 5, 1)] {
        (0..queued).for_each(|_| jobs.send(job()).unwrap());
        let together = (queued + 1).min(TOGETHER);
        assert_eq!(gather(job(), &queue, last).len(), together, "{queued} after {last}");
        assert_eq!(queue.try_iter().count(), queued + 1 - together);
    }
}

#[test]
fn large_objects_go_together_only_up_to_a_limit() {
    let (jobs, queue) = mpsc::channel();
    let body = Body::new(&json!({"metadata": {"name": "a"}, "data": "x".repeat(1 << 20)}));
    let job = || Job {
        write: Write {
            collection: "c".into(),
            key: "k".into(),
            expected: None,
            body: Some(body.clone()),
        },
        done: oneshot::channel().0,
    };
    (0..40).for_each(|_| jobs.send(job()).unwrap());
    let together = gather(job(), &queue, 100);
    assert_eq!(together.len(), TOGETHER_BYTES >> 20);
    assert_eq!(queue.try_iter().count(), 41 - together.len(), "the others wait for the next");
}

/// Folds every value of the log that it can.
#[tokio::test]
async fn expired_changes_are_folded_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let keys: Vec<u8> = (0..FOLD + 120).map(|n| u8::try_from(n % 7).unwrap()).collect();
    write(&store, &keys, 0).await;
    let before = contents(&store);
    drop(store);
    let (mut disk, state, _) = super::open(dir.path(), HISTORY).unwrap();
    // As a rule a thousand and some; where the machine paused, the store may have folded them meanwhile.
    let pieces = disk.log.forgotten.len().div_ceil(FOLD);
    assert_eq!(disk.log.values.len(), disk.log.forgotten.len() + HISTORY.at_most);
    drop(state);
    for _ in 0..pieces {
        assert!(disk.fold(&no_watchers()));
        // What is there after each piece is what was there before it, however far the objects lag behind.
        drop(disk);
        assert_eq!(contents(&open(dir.path())), before);
        disk = super::open(dir.path(), HISTORY).unwrap().0;
    }
    assert!(!disk.fold(&no_watchers()));
    assert_eq!(
        (disk.log.values.len(), disk.log.forgotten.len(), disk.log.last.len()),
        (HISTORY.at_most, 0, 0)
    );
}

#[tokio::test]
async fn a_commit_that_folds_more_than_it_brings_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let keys: Vec<u8> = (0..60).map(|n| n % 7).collect();
    write(&store, &keys, 0).await;
    let before = contents(&store);
    drop(store);
    let mut forgotten = None;
    for round in 0..9 {
        let (mut disk, state, _) = super::open(dir.path(), HISTORY).unwrap();
        disk.most_forgotten = 1;
        // One change is forgotten for each that came, and two are folded.
        assert_eq!(
            disk.log.forgotten.len(),
            *forgotten.get_or_insert(disk.log.forgotten.len()) - round
        );
        let version = state.version() + 1;
        let place = (Arc::from("late"), Arc::from(format!("n/late-{round}")));
        let body = Body::new(&json!({"metadata": {"name": "late"}}));
        let change = Change::new(0, place.clone(), version, Some(body), None).unwrap();
        disk.store(&[Arc::new(change)]).unwrap();
        drop((disk, state));
        let store = open(dir.path());
        assert_eq!(store.get(&place.0, &place.1).unwrap().version(), version);
        let kept: Vec<_> = contents(&store).0.into_iter().filter(|o| !o.contains("late")).collect();
        assert_eq!(kept, before.0);
    }
}

/// Text that resembles no other text.
struct Noise(u64);

impl Noise {
    fn text(&mut self, len: usize) -> String {
        let letter = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + u8::try_from((self.0 >> 33) % 26).unwrap())
        };
        std::iter::repeat_with(letter).take(len).collect()
    }
}

/// Writes an object of about these sizes, one commit after the other. Returns how large the log became, and the largest commit.
fn largest_log(
    disk: &mut Disk,
    shared: &Shared,
    sizes: impl Iterator<Item = usize>,
) -> (usize, usize) {
    let mut noise = Noise(1);
    let (mut log, mut commit) = (0, 0);
    for size in sizes {
        let key: Arc<str> = Arc::from("n/always-the-same");
        let expected = shared.read().get("things", &key).map(Object::version);
        let text = noise.text(size);
        let body = Some(Body::new(&json!({"metadata": {"name": "a"}, "data": text})));
        let (done, mut answer) = oneshot::channel::<Result<Object, WriteError>>();
        let write = Write { collection: "things".into(), key, expected, body };
        disk.together(vec![Job { write, done }], shared);
        answer.try_recv().unwrap().unwrap();
        log = log.max(disk.log.bytes);
        commit = commit.max(disk.log.values.back().unwrap().bytes);
    }
    (log, commit)
}

#[test]
fn the_log_has_at_most_twice_the_bytes_of_the_history_and_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let history = History { bytes: 64 << 10, ..History::default() };
    let (mut disk, state, packer) = super::open(dir.path(), history).unwrap();
    let shared = Shared::new(state, packer, Clock::system(), history);
    let sizes = (0..300).map(|round| if round < 200 { 200 } else { 20_000 });
    let (largest, commit) = largest_log(&mut disk, &shared, sizes);
    let kept = shared.read().version() - shared.read().forgotten_to();
    assert_eq!(kept, 3, "of 20 kB each fit into 64 KiB");
    assert!(largest <= LOG_FACTOR * history.bytes + commit, "{largest}");
    assert!(disk.log.bytes > history.bytes / 2, "as much is kept as fits");
    drop(disk);
    let (disk, state, _) = super::open(dir.path(), history).unwrap();
    assert!(disk.log.bytes <= LOG_FACTOR * history.bytes + commit);
    assert!(state.has_same_objects(&shared.read()));
}

#[test]
fn a_watcher_that_lags_behind_makes_the_log_no_larger_than_what_is_kept_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let history = History { bytes: 5 << 20, ..History::default() };
    let (mut disk, state, packer) = super::open(dir.path(), history).unwrap();
    let shared = Shared::new(state, packer, Clock::system(), history);
    let version = shared.read().version();
    let lagging = Subscription::new(&shared, &Arc::from("things"), version);
    let sizes = || std::iter::repeat_n(500_000, 60);
    let (largest, commit) = largest_log(&mut disk, &shared, sizes());
    assert!(largest > 3 * history.bytes, "it is kept for the watcher");
    // Those of the commit that is partly forgotten stay, too.
    assert!(largest <= 4 * history.bytes + 2 * commit, "{largest}");
    drop(lagging);
    let _ = largest_log(&mut disk, &shared, sizes());
    assert!(disk.log.bytes <= LOG_FACTOR * history.bytes + commit, "{}", disk.log.bytes);
}

#[tokio::test]
async fn a_file_of_the_first_format_is_read_and_only_its_past_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(dir.path().join("objects.redb")).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let mut meta = writing.open_table(META).unwrap();
        meta.insert("format", 1).unwrap();
        meta.insert("version", 9).unwrap();
        let object = Body::new(&json!({"metadata": {"name": "a"}})).at(7);
        let mut objects = writing.open_table(OBJECTS).unwrap();
        objects.insert("things\0n/a", codec::write_object(&object).as_slice()).unwrap();
        let changes = TableDefinition::<u64, &[u8]>::new("changes");
        writing.open_table(changes).unwrap().insert(9, b"whatever it was".as_slice()).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let store = open(dir.path());
        assert_eq!(store.version(), 9);
        assert_eq!(store.get("things", "n/a").unwrap().version(), 7);
        assert!(store.changes("things", 8, 1, 1).is_err());
    }
}
