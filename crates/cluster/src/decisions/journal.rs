//! The rules of the journal: which decisions are written, which only repeat the last one, and which are deleted again.
//!
//! Pure code. The recorder asks it before it builds or sends anything, so that an unchanged decision costs one lookup.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use api::plimsoll::{DecisionOutcome, DecisionSpec};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::content::MAX_ITEMS;
use crate::Key;

/// The shortest time between two updates of `repeated` and `lastAt`.
const REPEAT_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// The most subjects that are kept. The decisions about one that is evicted are listed again when it is next recorded, so this is more than
/// are usually evaluated in turn.
const MAX_SUBJECTS: usize = 1 << 16;

/// The part of a decision whose change makes a new object: the size, the codes of its reasons, and the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(u64);

impl Signature {
    /// Returns the signature of a decision; `error` is the code of a decision without an answer.
    pub fn new<'a>(
        to: Option<i64>,
        error: Option<&str>,
        reasons: impl IntoIterator<Item = &'a str>,
        outcome: DecisionOutcome,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (to, error, outcome).hash(&mut hasher);
        reasons.into_iter().for_each(|code| code.hash(&mut hasher));
        Self(hasher.finish())
    }

    /// Returns the signature of a decision as `plimsoll evaluate -o json` prints it. Of a decision about nodes the new sizes of groups,
    /// the removed nodes and the codes of all reasons count: not which pods and nodes the reasons are about, and not how many.
    pub fn of_decision(decision: &Map<String, Value>, outcome: DecisionOutcome) -> Self {
        let to = decision.get("to").and_then(Value::as_i64);
        let error = decision.get("error").and_then(|error| error["code"].as_str());
        let codes = items(decision, "reasons").filter_map(|reason| reason["code"].as_str());
        if !decision.contains_key("scaleUp") {
            return Self::new(to, error, codes, outcome);
        }
        let sizes = items(decision, "scaleUp").map(|r| format!("{} {}", r["group"], r["to"]));
        let deleted = items(decision, "delete").filter_map(|removal| removal["node"].as_str());
        let refused = items(decision, "unschedulable").flat_map(|pod| {
            let why = pod["why"].as_array().into_iter().flatten().take(MAX_ITEMS);
            why.filter_map(|why| why["reason"].as_str())
        });
        let kept = items(decision, "unremovable").filter_map(|kept| kept["reason"].as_str());
        let reasons: BTreeSet<&str> = codes.chain(refused).chain(kept).collect();
        let actions = sizes.chain(deleted.map(|node| format!("delete {node}")));
        let parts: Vec<String> = actions.chain(reasons.into_iter().map(str::to_owned)).collect();
        Self::new(to, error, parts.iter().map(String::as_str), outcome)
    }

    /// Returns the signature of a stored decision.
    pub(super) fn from_spec(spec: &DecisionSpec) -> Self {
        Self::of_decision(&spec.decision, spec.outcome)
    }
}

/// Returns the items of a list, as many as are stored of a longer one.
fn items<'a>(decision: &'a Map<String, Value>, field: &str) -> impl Iterator<Item = &'a Value> {
    let items = decision.get(field).and_then(Value::as_array);
    items.into_iter().flatten().take(MAX_ITEMS)
}

/// The kind, namespace and name of a subject.
pub(super) type SubjectKey = (&'static str, Key);

/// The action for one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: it was counted as a repetition.
    Count,
    /// Update the count of repetitions of the stored decision.
    Update,
    /// Write it, unless it turns out to repeat the newest stored one.
    Write,
}

/// The state of the recently recorded subjects.
#[derive(Default)]
pub(super) struct Journal {
    subjects: HashMap<SubjectKey, Subject>,
    /// Whether subjects were evicted, so that one that is new here may have decisions of this process.
    has_evicted: bool,
}

struct Subject {
    uid: Arc<str>,
    /// The signature of the last queued decision; `None` if the next one is queued in any case.
    current: Option<Signature>,
    /// How often it was repeated since the stored object was last written.
    repeats: i64,
    last_at: Timestamp,
    written_at: Timestamp,
    /// The stored decisions; `None`: not listed yet.
    stored: Option<Stored>,
}

/// The stored decisions about one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// The sequence number and time of each, oldest first.
    pub(super) kept: VecDeque<(u64, Timestamp)>,
    /// The highest sequence number so far.
    pub(super) sequence: u64,
    /// The signature of the newest one, and its count of repetitions.
    pub(super) newest: Option<(Signature, i64)>,
}

/// An update of the newest stored decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    /// The sequence number of the stored decision.
    pub(super) sequence: u64,
    /// The new `repeated`.
    pub(super) repeated: i64,
    /// The new `lastAt`.
    pub(super) last_at: Timestamp,
}

impl Journal {
    /// Records one evaluation, and returns the action for it.
    pub(super) fn evaluated(
        &mut self,
        key: &SubjectKey,
        uid: &str,
        signature: Signature,
        now: Timestamp,
    ) -> Step {
        let known = self.subjects.get_mut(key).filter(|subject| *subject.uid == *uid);
        let Some(subject) = known else {
            self.make_room();
            let current = Some(signature);
            let (uid, stored) = (uid.into(), None);
            let new = Subject { uid, current, repeats: 0, last_at: now, written_at: now, stored };
            self.subjects.insert(key.clone(), new);
            return Step::Write;
        };
        subject.last_at = now;
        if subject.current != Some(signature) {
            (subject.current, subject.repeats) = (Some(signature), 0);
            return Step::Write;
        }
        subject.repeats += 1;
        if now.duration_since(subject.written_at) < REPEAT_EVERY {
            return Step::Count;
        }
        subject.written_at = now;
        Step::Update
    }

    /// Whether a signature is that of the last decision about a subject.
    pub(super) fn is_current(&self, key: &SubjectKey, uid: &str, signature: Signature) -> bool {
        let subject = self.subjects.get(key).filter(|subject| *subject.uid == *uid);
        subject.is_some_and(|subject| subject.current == Some(signature))
    }

    /// Removes the eighth of the subjects that was not evaluated for the longest time, where there are too many.
    fn make_room(&mut self) {
        if self.subjects.len() < MAX_SUBJECTS {
            return;
        }
        let mut times: Vec<Timestamp> = self.subjects.values().map(|s| s.last_at).collect();
        let (_, newest_evicted, _) = times.select_nth_unstable(MAX_SUBJECTS / 8);
        let newest_evicted = *newest_evicted;
        self.has_evicted = true;
        self.subjects.retain(|_, subject| subject.last_at > newest_evicted);
    }

    /// Whether subjects were evicted since the start.
    pub(super) fn has_evicted(&self) -> bool {
        self.has_evicted
    }

    /// Removes a subject that was deleted.
    pub(super) fn remove(&mut self, key: &SubjectKey) {
        self.subjects.remove(key);
    }

    /// Records that a decision was not written, so that the next one is queued.
    pub(super) fn not_written(&mut self, key: &SubjectKey) {
        if let Some(subject) = self.subjects.get_mut(key) {
            subject.current = None;
        }
    }

    /// Marks the stored decisions about a subject as unknown: they are listed again.
    pub(super) fn lost(&mut self, key: &SubjectKey) {
        if let Some(subject) = self.subjects.get_mut(key) {
            (subject.current, subject.stored) = (None, None);
        }
    }

    /// Records that queued decisions may be lost.
    pub(super) fn restarted(&mut self) {
        self.subjects.values_mut().for_each(|subject| subject.current = None);
    }

    /// Whether the stored decisions about a subject have to be listed before one is written.
    pub(super) fn is_unlisted(&self, key: &SubjectKey) -> bool {
        self.subjects.get(key).is_some_and(|subject| subject.stored.is_none())
    }

    /// Records which decisions about a subject are stored.
    pub(super) fn listed(&mut self, key: &SubjectKey, stored: Stored) {
        if let Some(subject) = self.subjects.get_mut(key) {
            subject.stored = Some(stored);
        }
    }

    /// Returns the sequence number for a new decision. `None`: it is not to be written, because the newest stored one is the same, which
    /// then counts as repeated, or because the subject was deleted.
    pub(super) fn next_sequence(&mut self, key: &SubjectKey, signature: Signature) -> Option<u64> {
        let subject = self.subjects.get_mut(key)?;
        let stored = subject.stored.as_mut()?;
        if stored.newest.is_some_and(|(newest, _)| newest == signature) {
            subject.repeats += 1;
            return None;
        }
        stored.sequence += 1;
        Some(stored.sequence)
    }

    /// Records that a decision was written.
    pub(super) fn written(
        &mut self,
        key: &SubjectKey,
        sequence: u64,
        signature: Signature,
        at: Timestamp,
    ) {
        let Some(subject) = self.subjects.get_mut(key) else { return };
        subject.written_at = at;
        let Some(stored) = subject.stored.as_mut() else { return };
        stored.kept.push_back((sequence, at));
        stored.newest = Some((signature, 0));
    }

    /// Returns the update of the newest stored decision, and counts it as made.
    pub(super) fn repetition(&mut self, key: &SubjectKey) -> Option<Repetition> {
        let subject = self.subjects.get_mut(key)?;
        let stored = subject.stored.as_mut()?;
        let (signature, repeated) = stored.newest.as_mut()?;
        if subject.current != Some(*signature) || subject.repeats == 0 {
            return None;
        }
        *repeated += std::mem::take(&mut subject.repeats);
        Some(Repetition {
            sequence: stored.sequence,
            repeated: *repeated,
            last_at: subject.last_at,
        })
    }

    /// Takes out the stored decisions about a subject that are too many or too old, and returns their sequence numbers. The newest one stays:
    /// it still holds.
    pub(super) fn expired(
        &mut self,
        key: &SubjectKey,
        keep: usize,
        keep_for: SignedDuration,
        now: Timestamp,
    ) -> Vec<u64> {
        let stored = self.subjects.get_mut(key).and_then(|subject| subject.stored.as_mut());
        let Some(stored) = stored else { return Vec::new() };
        let mut expired = Vec::new();
        while stored.kept.len() > 1
            && let Some((sequence, at)) = stored.kept.front().copied()
            && (stored.kept.len() > keep || now.duration_since(at) > keep_for)
        {
            stored.kept.pop_front();
            expired.push(sequence);
        }
        expired
    }

    /// Returns the subjects whose stored decisions are known, with their uids.
    pub(super) fn listed_subjects(&self) -> Vec<(SubjectKey, Arc<str>)> {
        let listed = self.subjects.iter().filter(|(_, subject)| subject.stored.is_some());
        listed.map(|(key, subject)| (key.clone(), Arc::clone(&subject.uid))).collect()
    }
}

#[cfg(test)]
mod tests;
