//! One open source: its queries in progress, their answers, and whether it can be reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Key, WorkQueue};
use connect::sources::{self, MetricSource, Query, QueryError};
use decide::checks::{Series, Window};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::breaker::Breaker;
use super::status::Health;
use super::{Question, Sources};
use crate::metrics::Answer;

/// The most queries that one source has in progress.
const CONCURRENCY: usize = 64;
/// The most points that are kept of one query whose source has no history.
const MOST_POINTS: usize = 4096;
/// How long the answer to an unused query is kept.
const KEEP_FOR: Duration = Duration::from_secs(3600);
/// The shortest time between two removals of expired answers.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// The drivers whose numbers are about the target of the policy, so that equal texts are different queries.
const ABOUT_TARGET: [&str; 4] = ["kubernetes", "docker", "nomad", "rancher"];

type Pending = Shared<BoxFuture<'static, Answer>>;

/// A source that is in use.
pub(super) struct OpenSource {
    pub(super) name: String,
    /// The uid and generation of its object; `None` for a source without one.
    pub(super) identity: Option<(String, Option<i64>)>,
    /// The source, or why it cannot be opened.
    pub(super) source: Result<Arc<dyn MetricSource>, String>,
    is_about_target: bool,
    permits: Semaphore,
    state: Mutex<State>,
    statuses: Arc<WorkQueue>,
}

#[derive(Default)]
struct State {
    breaker: Breaker,
    health: Health,
    asked: HashMap<String, SentQuery>,
    pruned_at: Option<Instant>,
}

impl State {
    /// Removes the answers to queries that are no longer used.
    fn prune(&mut self, now: Instant) {
        let since = self.pruned_at.map(|pruned_at| now.saturating_duration_since(pruned_at));
        if since.is_none_or(|since| since >= PRUNE_EVERY) {
            self.pruned_at = Some(now);
            self.asked.retain(|_, asked| now.saturating_duration_since(asked.at) < KEEP_FOR);
        }
    }
}

/// A query that was sent.
struct SentQuery {
    at: Instant,
    /// Whether the source has reported a change since.
    has_expired: bool,
    answer: Pending,
    /// The points of a source that has no history: one for each query.
    points: Vec<(Timestamp, f64)>,
}

impl OpenSource {
    pub(super) fn new(
        all: &Sources,
        name: &str,
        identity: Option<(String, Option<i64>)>,
        settings: &Map<String, Value>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            identity,
            source: sources::open(&all.connect, settings).map_err(|error| error.to_string()),
            is_about_target: ABOUT_TARGET.iter().any(|driver| settings.contains_key(*driver)),
            permits: Semaphore::new(CONCURRENCY),
            state: Mutex::default(),
            statuses: Arc::clone(&all.statuses),
        }
    }

    /// Answers a question, with the answer to an equal one that was asked within the interval if there is one.
    pub(super) async fn ask(
        self: &Arc<Self>,
        question: &Question,
        now: Timestamp,
        interval: Duration,
    ) -> Answer {
        let asked_at = Instant::now();
        let (fresh_for, deadline) = (interval * 3 / 4, asked_at + interval * 3 / 4);
        let pending = self.pending(question, now, fresh_for, deadline);
        // The query in progress may be that of a policy with a longer interval.
        let answer = timeout_at(deadline, pending).await;
        answer.unwrap_or_else(|_| Answer::Failed(format!("`{}` did not answer in time", self.name)))
    }

    /// Expires the cached answers, so that the next questions are new queries.
    pub(super) fn forget_answers(&self) {
        self.state().asked.values_mut().for_each(|asked| asked.has_expired = true);
    }

    fn pending(
        self: &Arc<Self>,
        question: &Question,
        now: Timestamp,
        fresh_for: Duration,
        deadline: Instant,
    ) -> Pending {
        let key = self.key(question);
        let mut state = self.state();
        let asked_at = Instant::now();
        if let Some(asked) = state.asked.get(&key)
            && !asked.has_expired
            && asked_at.saturating_duration_since(asked.at) < fresh_for
        {
            return asked.answer.clone();
        }
        let query = Query {
            text: question.text.clone(),
            target: Some(question.target.clone()),
            window: question.window,
            now,
            deadline,
        };
        let (source, name) = (Arc::clone(self), key.clone());
        let answer = async move { source.query(&name, query).await }.boxed().shared();
        let points = state.asked.remove(&key).map(|asked| asked.points).unwrap_or_default();
        state.prune(asked_at);
        let (at, has_expired) = (asked_at, false);
        state.asked.insert(key, SentQuery { at, has_expired, answer: answer.clone(), points });
        answer
    }

    /// Returns the key of a query. Two queries with one key have the same answer.
    fn key(&self, question: &Question) -> String {
        let Question { text, window, target, .. } = question;
        let seconds = window.length.map(|length| length.as_secs());
        let about = self.is_about_target.then_some((&target.namespace, &target.spec));
        format!("{text}\n{seconds:?}\n{}\n{about:?}", window.offset.as_secs())
    }

    /// Sends a query, unless the source has failed too often, or too many are in progress until the deadline.
    async fn query(&self, key: &str, query: Query) -> Answer {
        let source = match &self.source {
            Ok(source) => source,
            Err(problem) => {
                self.record(query.now, Err(problem.clone()), false);
                return Answer::Failed(problem.clone());
            }
        };
        let is_open = self.state().breaker.admit(Instant::now()).is_err();
        if is_open {
            return Answer::Failed(self.broken());
        }
        let Ok(permit) = timeout_at(query.deadline, self.permits.acquire()).await else {
            let text = format!("`{}` has {CONCURRENCY} queries in progress", self.name);
            return Answer::Failed(text);
        };
        let answered = source.query(&query).await;
        drop(permit);
        match answered {
            Ok(answer) => {
                self.record(query.now, Ok(()), false);
                self.answer(key, answer, &query)
            }
            Err(error) => {
                let text = process::log::chain(&error);
                self.failed(query.now, &error, &text);
                Answer::Failed(text)
            }
        }
    }

    /// Returns why no query is sent. The text stays the same while the circuit is open, so that the status does not change.
    fn broken(&self) -> String {
        let state = self.state();
        format!("{} (queries are paused after repeated failures)", state.health.problem())
    }

    /// Converts the answer of a source into one for decisions. Single points are collected, so that windows fill up also where the source has
    /// no history.
    fn answer(&self, key: &str, answer: sources::Answer, query: &Query) -> Answer {
        match answer {
            sources::Answer::Points(series) => Answer::Series(self.collect(key, series, query)),
            sources::Answer::Stale { newest_at } => Answer::Stale(newest_at),
            sources::Answer::NoData | _ => Answer::NoData,
        }
    }

    fn collect(&self, key: &str, series: Series, query: &Query) -> Series {
        let Window { length: Some(length), offset } = query.window else { return series };
        let only = {
            let mut points = series.points();
            points.next().filter(|_| points.next().is_none())
        };
        let Some(only) = only else { return series };
        let mut state = self.state();
        let Some(asked) = state.asked.get_mut(key) else { return series };
        asked.points.retain(|(at, _)| *at != only.0);
        asked.points.push(only);
        let reach = length.checked_add(offset).unwrap_or(SignedDuration::MAX);
        let oldest_at = query.now.checked_sub(reach).unwrap_or(Timestamp::MIN);
        let surplus = asked.points.len().saturating_sub(MOST_POINTS);
        asked.points.drain(..surplus);
        asked.points.retain(|(at, _)| *at >= oldest_at);
        Series::new(asked.points.clone(), None)
    }

    /// Records a failure. A source that refused only this query is reachable.
    fn failed(&self, at: Timestamp, error: &QueryError, text: &str) {
        let is_reachable = error.is_about_query();
        let result = if is_reachable { Ok(()) } else { Err(text.to_owned()) };
        self.record(at, result, error.is_unreachable());
    }

    /// Records whether the source is reachable; its status is written when that changes, and regularly.
    fn record(&self, at: Timestamp, result: Result<(), String>, is_unreachable: bool) {
        let mut state = self.state();
        if is_unreachable {
            state.breaker.failed(Instant::now());
        } else {
            // It was reached; another query may be answered.
            state.breaker.succeeded();
        }
        if state.health.record(at, result) && self.identity.is_some() {
            drop(state);
            self.statuses.add(Key::new("", self.name.as_str()));
        }
    }

    /// Returns the state of the source.
    pub(super) fn health(&self) -> Health {
        self.state().health.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
