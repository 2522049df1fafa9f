//! Power loss: a disk that keeps only synced writes, and any part of the rest.
//!
//! Each seed is a story of writes, full disks and power cuts, also while the file is created, opened or folded. After each,
//! everything that was acknowledged is there, a batch that was not is there as a whole or not at all, and a client that watches
//! can read on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use super::super::{Body, Object, Write, WriteError};
use super::simulated::{Random, Simulated};
use super::*;
use process::Clock;

const SEEDS: u64 = 200;
const HISTORY: History =
    History { keep_for: Duration::from_secs(300), at_most: 20, bytes: 64 << 20 };
const COLLECTION: &str = "things";

/// A change: the version, the object, and its new value.
type Event = (u64, String, Option<String>);

/// The expected content.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    objects: BTreeMap<String, (u64, String)>,
    events: Vec<Event>,
}

impl Model {
    fn version(&self) -> u64 {
        self.events.last().map_or(1, |(version, ..)| *version)
    }

    fn add(&mut self, key: &str, value: Option<String>) {
        let version = self.version() + 1;
        match &value {
            Some(value) => drop(self.objects.insert(key.to_owned(), (version, value.clone()))),
            None => drop(self.objects.remove(key)),
        }
        self.events.push((version, key.to_owned(), value));
    }
}

/// A story.
struct Story {
    medium: Simulated,
    random: Random,
    known: Model,
    /// The same, if the last batch has happened, which was not acknowledged.
    doubtful: Option<Model>,
}

#[test]
fn acknowledged_writes_survive_a_power_cut_and_none_is_partial() {
    let mut acknowledged = 0;
    let mut cuts = 0;
    for seed in 0..SEEDS {
        let medium = Simulated::new(seed);
        let mut story =
            Story { medium, random: Random(!seed), known: Model::default(), doubtful: None };
        for _ in 0..4 {
            let steps = 1 + story.random.below(160);
            story.medium.cut_after(steps);
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story.live()));
            assert!(ended.is_ok(), "seed {seed}");
            cuts += usize::from(story.medium.is_off());
            story.medium.crash();
        }
        let opened = open_on(Arc::new(story.medium.clone()), "simulated", HISTORY);
        let (_disk, state, _) = opened.unwrap_or_else(|err| panic!("seed {seed}: {err}"));
        story.check(&state);
        acknowledged += story.known.events.len();
    }
    assert!(acknowledged > 1000 && cuts > 200, "{acknowledged} writes and {cuts} cuts are too few");
}

impl Story {
    /// Opens the store on the disk and writes to it, until the power fails or it has written enough.
    fn live(&mut self) {
        let (mut disk, state, packer) =
            match open_on(Arc::new(self.medium.clone()), "simulated", HISTORY) {
                Ok(opened) => opened,
                Err(err) => return assert!(self.medium.is_off(), "{err}"),
            };
        self.check(&state);
        disk.most_forgotten = self.random.below(40);
        let shared = Shared::new(state, packer, Clock::system(), HISTORY);
        for _ in 0..self.random.below(30) {
            match self.random.below(12) {
                0 => drop(disk.fold(&shared)),
                1 => self.fill(&mut disk, &shared),
                _ => self.write(&mut disk, &shared),
            }
            if disk.has_failed() {
                return assert!(self.medium.is_off());
            }
            self.check(&shared.read());
        }
    }

    /// Writes while there is no room; then there is again.
    fn fill(&mut self, disk: &mut Disk, shared: &Shared) {
        self.medium.set_full(true);
        self.write(disk, shared);
        disk.recover(shared);
        assert!(disk.has_failed(), "there is no room");
        self.medium.set_full(false);
        disk.recover(shared);
        if !disk.has_failed() {
            // The batch that failed did not happen, and never will.
            self.doubtful = None;
        }
    }

    /// Writes some objects together.
    fn write(&mut self, disk: &mut Disk, shared: &Shared) {
        let mut next = self.known.clone();
        let mut answers = Vec::new();
        let mut jobs = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            let key = format!("n/{}", self.random.below(12));
            let value = self.random.next().to_string().repeat(1 + self.random.below(60));
            let expected = next.objects.get(&key).map(|(version, _)| *version);
            let value = (expected.is_none() || self.random.below(4) > 0).then_some(value);
            let body = value
                .as_ref()
                .map(|value| Body::new(&json!({"metadata": {"name": key}, "data": value})));
            let (done, answer) = oneshot::channel::<Result<Object, WriteError>>();
            let (collection, place) = (Arc::from(COLLECTION), Arc::from(key.as_str()));
            jobs.push(Job { write: Write { collection, key: place, expected, body }, done });
            answers.push(answer);
            next.add(&key, value);
        }
        disk.together(jobs, shared);
        let answers: Vec<_> = answers.iter_mut().map(|a| a.try_recv().unwrap()).collect();
        if answers.iter().all(Result::is_ok) {
            self.known = next;
        } else {
            assert!(answers.iter().all(|a| matches!(a, Err(WriteError::Failed(_)))));
            self.doubtful = Some(next);
        }
    }

    /// Compares the stored objects with the acknowledged ones, and resolves those in doubt.
    fn check(&mut self, state: &State) {
        let mut found = BTreeMap::new();
        state.each(|_, key, object| {
            found.insert(key.to_string(), (object.version(), value_of(object)));
        });
        if let Some(doubtful) = self.doubtful.take().filter(|d| d.version() == state.version()) {
            self.known = doubtful;
        }
        assert_eq!(state.version(), self.known.version());
        assert_eq!(found, self.known.objects);
        let kept = usize::try_from(state.version() - state.forgotten_to()).unwrap();
        assert!(kept >= HISTORY.at_most.min(self.known.events.len()), "{kept}");
        let changes = state.changes(COLLECTION, state.forgotten_to(), usize::MAX, usize::MAX);
        let events = changes.unwrap().0.into_iter().map(|change| {
            let value = (!change.deleted).then(|| value_of(&change.object));
            (change.version(), change.key.to_string(), value)
        });
        assert_eq!(events.collect::<Vec<_>>(), self.known.events[self.known.events.len() - kept..]);
    }
}

fn value_of(object: &Object) -> String {
    let value: serde_json::Value = serde_json::from_slice(&object.body()).unwrap();
    value["data"].as_str().unwrap().to_owned()
}
