//! The times at which policies were evaluated, from what their controller traces.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::objects::INTERVAL;

/// The module that traces evaluations.
const CONTROLLER: &str = "plimsoll_control::scaling_policy";

/// The end of each evaluation, by the name of its policy.
#[derive(Clone, Default)]
pub(crate) struct Evaluations(Arc<Mutex<HashMap<String, Vec<Instant>>>>);

impl Evaluations {
    /// Returns the layer that collects them.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let only = Targets::new().with_target(CONTROLLER, LevelFilter::TRACE);
        Collector(self.clone()).with_filter(only)
    }

    /// Removes what was collected, and keeps collecting.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Returns how many policies were evaluated.
    pub(super) fn policies(&self) -> usize {
        self.lock().len()
    }

    /// Returns how many evaluations there were, and how late each was, sorted.
    pub(super) fn lateness(&self) -> Vec<Duration> {
        let mut all: Vec<Duration> = self.lock().values().flat_map(|ends| lateness(ends)).collect();
        all.sort_unstable();
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how late each end is against the earliest one, with a period of one interval.
fn lateness(ends: &[Instant]) -> Vec<Duration> {
    let Some(first) = ends.first() else { return Vec::new() };
    let interval = INTERVAL.as_secs_f64();
    let place = |end: &Instant| {
        let since = (*end - *first).as_secs_f64();
        since - (since / interval).round() * interval
    };
    let places: Vec<f64> = ends.iter().map(place).collect();
    let earliest = places.iter().copied().fold(f64::INFINITY, f64::min);
    places.into_iter().map(|place| Duration::from_secs_f64(place - earliest)).collect()
}

struct Collector(Evaluations);

impl<S: Subscriber> Layer<S> for Collector {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut traced = Traced::default();
        event.record(&mut traced);
        if let Some(policy) = traced.policy.filter(|_| traced.is_evaluation) {
            self.0.lock().entry(policy).or_default().push(Instant::now());
        }
    }
}

/// The fields of an event that matter.
#[derive(Default)]
struct Traced {
    is_evaluation: bool,
    policy: Option<String>,
}

impl Visit for Traced {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.is_evaluation = format!("{value:?}") == "evaluated",
            "policy" => self.policy = Some(format!("{value:?}")),
            _ => {}
        }
    }
}
