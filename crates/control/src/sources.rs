//! Queries to metric sources, shared by all policies of the process.
//!
//! Equal queries are sent once in an evaluation interval. Each source has a limit of queries at a time and a circuit breaker of its own, so
//! that a slow or broken one delays only the policies that use it.

mod breaker;
mod query;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::plimsoll::MetricSource;
use api::plimsoll::auto_scale_policy::RelativeTo;
use cluster::{Caches, Key, Subscription, WorkQueue};
use connect::targets::TargetRef;
use decide::checks::Window;
use futures::StreamExt as _;
use jiff::Timestamp;
use process::Supervised;
use serde_json::{Map, json};

use crate::metrics::Answer;
use query::OpenSource;

/// Sources that need no MetricSource object.
const BUILT_IN: [&str; 2] = ["kubernetes", "docker"];

/// One question of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The name of the source; `None`: the only one.
    pub(crate) source: Option<String>,
    /// The query, in the language of the source.
    pub(crate) text: String,
    /// The time window of the query.
    pub(crate) window: Window,
    /// The target of the policy.
    pub(crate) target: TargetRef,
}

/// Called with the name of a source whose numbers have changed.
type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// The metric sources that policies have used.
pub(crate) struct Sources {
    connect: connect::Context,
    caches: Arc<Caches>,
    open: Mutex<BTreeMap<String, Entry>>,
    listeners: Mutex<Vec<Listener>>,
    /// Sources whose status is to be written.
    statuses: Arc<WorkQueue>,
}

struct Entry {
    source: Arc<OpenSource>,
    _changes: Option<Supervised>,
}

impl Sources {
    /// Returns the sources that the MetricSource objects of the cache describe.
    pub(crate) fn new(connect: connect::Context, caches: Arc<Caches>) -> Arc<Self> {
        let (open, listeners, statuses) = Default::default();
        Arc::new(Self { connect, caches, open, listeners, statuses })
    }

    /// Calls `listener` with the name of each source whose MetricSource has changed, or which reports that its numbers have.
    pub(crate) fn subscribe(
        &self,
        caches: &Caches,
        listener: impl Fn(&str) + Send + Sync + 'static,
    ) -> Subscription {
        let listener = Arc::new(listener);
        let changed = Arc::clone(&listener);
        self.on_change(move |name| changed(name));
        caches.sources.subscribe(move |old, new| {
            let generation = |source: Option<&Arc<MetricSource>>| {
                source.map(|s| (s.metadata.uid.clone(), s.metadata.generation))
            };
            if generation(old) != generation(new)
                && let Some(source) = new.or(old)
            {
                listener(source.metadata.name.as_deref().unwrap_or_default());
            }
        })
    }

    /// Calls `listener` with the name of each source whose numbers have changed, where the source reports changes.
    fn on_change(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    /// Answers a question of a policy that is evaluated at `now` and at least once in every `interval`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        question: &Question,
        now: Timestamp,
        interval: Duration,
    ) -> Answer {
        match self.source(question.source.as_deref()) {
            Ok(source) => source.ask(question, now, interval).await,
            Err(problem) => Answer::Failed(problem),
        }
    }

    /// Whether a MetricSource of this driver exists.
    pub(crate) fn has_driver(&self, driver: &str) -> bool {
        let sources = self.caches.sources.all();
        sources.iter().any(|source| source.spec.driver().as_deref() == Some(driver))
    }

    /// Returns the query for the use of CPU or memory in the language of a source: compared with `relative_to` where the source measures
    /// containers of one of the drivers.
    pub(crate) fn usage_query(
        &self,
        source: &str,
        metric: &str,
        relative_to: RelativeTo,
        drivers: &[&str],
    ) -> String {
        let object = self.caches.sources.get(&Key::new("", source));
        let driver = match &object {
            Some(object) => object.spec.driver(),
            None => Some(source.to_owned()),
        };
        let of = match relative_to {
            RelativeTo::Limit => "limit",
            RelativeTo::Request => "request",
        };
        if driver.is_some_and(|driver| drivers.contains(&&*driver)) {
            format!("{metric}/{of}")
        } else {
            metric.to_owned()
        }
    }

    /// Returns a source by its name. It is opened when it is first used, and again when its object has changed.
    fn source(self: &Arc<Self>, name: Option<&str>) -> Result<Arc<OpenSource>, String> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.only()?,
        };
        let object = self.caches.sources.get(&Key::new("", name.as_str()));
        let identity = object.as_ref().map(|object| {
            (object.metadata.uid.clone().unwrap_or_default(), object.metadata.generation)
        });
        if let Some(entry) = self.open().get(&name)
            && entry.source.identity == identity
        {
            return Ok(Arc::clone(&entry.source));
        }
        let settings = match &object {
            Some(object) => object.spec.settings(),
            None if BUILT_IN.contains(&name.as_str()) => {
                Map::from_iter([(name.clone(), json!({}))])
            }
            None => {
                self.open().remove(&name);
                return Err(format!("there is no MetricSource `{name}`"));
            }
        };
        let source = Arc::new(OpenSource::new(self, &name, identity, &settings));
        let changes = self.follow_changes(&source);
        let entry = Entry { source: Arc::clone(&source), _changes: changes };
        let replaced = self.open().insert(name, entry);
        drop(replaced);
        Ok(source)
    }

    fn only(&self) -> Result<String, String> {
        let all = self.caches.sources.all();
        match all.as_slice() {
            [only] => Ok(only.metadata.name.clone().unwrap_or_default()),
            [] => Err("no source is named, and there is no MetricSource".to_owned()),
            several => {
                Err(format!("no source is named, and there are {} MetricSources", several.len()))
            }
        }
    }

    /// Follows the changes that a source reports, where it can.
    fn follow_changes(self: &Arc<Self>, source: &Arc<OpenSource>) -> Option<Supervised> {
        let followed = source.source.as_ref().ok()?;
        drop(followed.changes()?);
        let (weak, source) = (Arc::downgrade(self), Arc::downgrade(source));
        let name = "changes of a metric source";
        Some(self.connect.supervisor.spawn(name, move || {
            let (weak, source) = (weak.clone(), source.clone());
            async move {
                let stream = source.upgrade().and_then(|s| s.source.as_ref().ok()?.changes());
                let Some(mut changes) = stream else { return std::future::pending().await };
                while changes.next().await.is_some() {
                    let (Some(all), Some(source)) = (weak.upgrade(), source.upgrade()) else {
                        return;
                    };
                    source.forget_answers();
                    let listeners = all.listeners.lock().unwrap_or_else(PoisonError::into_inner);
                    listeners.iter().for_each(|listener| listener(&source.name));
                }
            }
        }))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
