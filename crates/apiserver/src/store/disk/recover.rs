//! Recovery after the disk refused a write.
//!
//! The usual cause is a full disk. redb refuses everything after its first failed write, so the database is closed; writers get an error
//! to retry later, and readiness has the reason. From time to time it tests whether the disk can be written again. Then
//! the file is opened as it was at the last commit that succeeded, and has to hold exactly what is in memory: everything that
//! was acknowledged, and nothing else.

use std::time::{Duration, Instant};

use super::super::Shared;
use super::super::pack::Packer;
use super::{Disk, Keep, Unreadable, read};

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// The time of the next try after a failure. The wait doubles until a commit succeeds.
#[derive(Default)]
pub(super) struct Retry {
    at: Option<Instant>,
    wait: Duration,
}

impl Retry {
    /// Returns how long to wait before the next try; `None` if none is due.
    pub(super) fn after(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn succeeded(&mut self) {
        self.wait = Duration::ZERO;
    }

    fn failed(&mut self) {
        self.wait = (self.wait * 2).clamp(FIRST, LONGEST);
        self.at = Some(Instant::now() + self.wait);
    }
}

impl Disk {
    pub(super) fn has_failed(&self) -> bool {
        self.database.is_none()
    }

    /// Closes the database after a failed write.
    pub(super) fn fail(&mut self, err: &redb::Error, shared: &Shared) {
        self.database = None;
        self.retry.failed();
        let why = format!("cannot write to the data directory: {err}");
        tracing::error!(error = why, "the store is read-only until it can write again");
        shared.set_trouble(Some(why));
    }

    /// Opens the database again, if the disk can be written and has the expected content.
    pub(super) fn recover(&mut self, shared: &Shared) {
        match self.try_recover(shared) {
            Ok(()) => {
                self.retry.at = None;
                shared.set_trouble(None);
                tracing::info!("the store can write again");
            }
            Err(why) => {
                self.retry.failed();
                let why = format!("cannot write to the data directory: {why}");
                tracing::debug!(error = why, "the store is still read-only");
                shared.set_trouble(Some(why));
            }
        }
    }

    fn try_recover(&mut self, shared: &Shared) -> Result<(), String> {
        self.backend.probe().map_err(|err| err.to_string())?;
        let backend = self.backend.again().map_err(|err| err.to_string())?;
        let state = shared.read();
        let keep = Keep::Between { forgotten: state.forgotten_to(), newest: state.version() };
        let found = read(&backend, &Packer::default(), keep);
        let (database, log, found) = found.map_err(|why| match why {
            Unreadable::Newer(format) => format!("it now has format {format}"),
            Unreadable::Damaged(what) => what,
        })?;
        if !found.has_same_objects(&state) {
            return Err("it no longer has what was acknowledged; restart to see why".to_owned());
        }
        drop(state);
        backend.accept().map_err(|err| err.to_string())?;
        (self.backend, self.database, self.log) = (backend, Some(database), log);
        Ok(())
    }
}
