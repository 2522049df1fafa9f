//! Why a turn failed. Every failure is tried again.

use std::time::Duration;

use crate::Key;

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API refused or did not answer.
    #[error("could not {what}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// The pod of another has the name of a game server.
    #[error("a pod of this name belongs to someone else")]
    NotOurs,
    /// A bug.
    #[error("the turn panicked")]
    Panicked,
}

impl Error {
    /// Says what was tried.
    pub fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// Whether someone else wrote first: then the newer object is on its way here.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if code(source) == Some(409))
    }

    /// Whether the object is gone.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Api { source, .. } if code(source) == Some(404))
    }

    pub(crate) fn log(&self, key: &Key, retry_after: Duration) {
        let error = process::log::chain(self);
        if self.is_conflict() {
            tracing::debug!(%key, %error, "the object has changed; will look again");
        } else {
            tracing::warn!(%key, %error, ?retry_after, "turn failed; will retry");
        }
    }
}

/// Gives the code of an answer of the API.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}
