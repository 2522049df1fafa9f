//! Which game servers failed and are kept for now? Each is told once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use api::agones::GameServerSet;
use cluster::{EventType, Key};
use decide::fleet;

use super::act::SOURCE;
use crate::context::Context;

/// The servers that were told of, by their set.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<Key, BTreeSet<Arc<str>>>>);

impl Kept {
    /// Takes in the servers of a set that are kept now, and returns those that were not told of.
    fn news<'a>(&self, set: &Key, kept: &'a [fleet::Kept]) -> Vec<&'a fleet::Kept> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = kept.iter().map(|kept| Arc::clone(&kept.name)).collect();
        let before = if kept.is_empty() { told.remove(set) } else { told.insert(set.clone(), now) };
        let before = before.unwrap_or_default();
        kept.iter().filter(|kept| !before.contains(&kept.name)).collect()
    }

    /// Forgets a set that is gone.
    pub(super) fn forget(&self, set: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(set);
    }
}

/// Tells of servers that failed, and when they are replaced.
pub(super) fn tell(set: &GameServerSet, kept: &[fleet::Kept], cx: &Context) {
    for fleet::Kept { name, failures, until } in cx.kept.news(&Key::from_meta(&set.metadata), kept)
    {
        let note = format!(
            "Gameserver {name} failed soon after it was made, as {failures} in a row have: it is kept until \
             {until:.0}, so that its pod and logs can be looked at, and then replaced"
        );
        cx.events.record(set, SOURCE, EventType::Warning, "ReplacementDelayed", note);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_server_that_is_kept_is_told_of_once() {
        let (told, set) = (Kept::default(), Key::new("ns", "set"));
        let kept = |name: &str| fleet::Kept {
            name: name.into(),
            failures: 2,
            until: Timestamp::UNIX_EPOCH,
        };
        let names = |kept: &[fleet::Kept]| -> Vec<String> {
            told.news(&set, kept).iter().map(|kept| kept.name.to_string()).collect()
        };
        assert_eq!(names(&[kept("a")]), ["a"]);
        assert_eq!(names(&[kept("a"), kept("b")]), ["b"]);
        assert!(names(&[kept("a")]).is_empty());
        assert!(names(&[]).is_empty());
        assert_eq!(names(&[kept("a")]), ["a"], "another of that name");
    }
}
