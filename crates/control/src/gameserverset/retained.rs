//! Reports failed game servers that are retained before they are replaced, each of them once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use api::agones::GameServerSet;
use cluster::{EventType, Key};
use decide::fleet;

use super::act::SOURCE;
use crate::context::Context;

/// The retained servers that were reported, by their set.
#[derive(Default)]
pub(crate) struct ReportedRetained(Mutex<HashMap<Key, BTreeSet<Arc<str>>>>);

impl ReportedRetained {
    /// Records the retained servers of a set, and returns those that were not reported before.
    fn update<'a>(
        &self,
        set: &Key,
        retained: &'a [fleet::RetainedServer],
    ) -> Vec<&'a fleet::RetainedServer> {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = retained.iter().map(|server| Arc::clone(&server.name)).collect();
        let before = if retained.is_empty() {
            reported.remove(set)
        } else {
            reported.insert(set.clone(), now)
        };
        let before = before.unwrap_or_default();
        retained.iter().filter(|server| !before.contains(&server.name)).collect()
    }

    /// Removes a set that is gone.
    pub(super) fn forget(&self, set: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(set);
    }
}

/// Records an event for each server that failed, with the time of its replacement.
pub(super) fn report(set: &GameServerSet, retained: &[fleet::RetainedServer], cx: &Context) {
    for fleet::RetainedServer { name, failures, until } in
        cx.retained.update(&Key::from_meta(&set.metadata), retained)
    {
        let note = format!(
            "Gameserver {name} failed soon after it was created, as {failures} in a row have: it is kept until \
             {until:.0}, so that its pod and logs can be inspected, and then replaced"
        );
        cx.events.record(set, SOURCE, EventType::Warning, "ReplacementDelayed", note);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_retained_server_is_reported_once() {
        let (reported, set) = (ReportedRetained::default(), Key::new("ns", "set"));
        let retained = |name: &str| fleet::RetainedServer {
            name: name.into(),
            failures: 2,
            until: Timestamp::UNIX_EPOCH,
        };
        let names = |retained: &[fleet::RetainedServer]| -> Vec<String> {
            reported.update(&set, retained).iter().map(|server| server.name.to_string()).collect()
        };
        assert_eq!(names(&[retained("a")]), ["a"]);
        assert_eq!(names(&[retained("a"), retained("b")]), ["b"]);
        assert!(names(&[retained("a")]).is_empty());
        assert!(names(&[]).is_empty());
        assert_eq!(names(&[retained("a")]), ["a"], "another of that name");
    }
}
