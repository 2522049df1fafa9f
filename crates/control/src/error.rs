//! Why a turn failed. Every failure is tried again.

use std::sync::Arc;
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

    /// Says why, for people: what the API said, where it was asked.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Api { source, .. } => words(source),
            Self::NotOurs | Self::Panicked => self.to_string(),
        }
    }

    pub(crate) fn log(&self, key: &Key, retry_after: Duration) {
        let error = explain(self);
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

/// Says what the API said, for people: its message where it answered, and else what went wrong on the way.
pub(crate) fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() {
            format!("the API answered {}: {}", status.code, status.reason)
        } else {
            status.message.clone()
        };
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Returns an error and its causes for a log line: what the API said is there in its own words and once.
pub fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let text = process::log::chain(error);
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(of_kube) = kube_error(cause) {
            return text.replace(&of_kube.to_string(), &in_place_of(of_kube));
        }
        next = cause.source();
    }
    text
}

/// Returns what stands in a log line for an error of the client. Some of them only say of which type their cause is.
fn in_place_of(error: &kube::Error) -> String {
    if let kube::Error::Api(_) = error {
        words(error)
    } else if let kube::Error::Service(cause) = error {
        cause.to_string()
    } else if let kube::Error::HyperError(cause) = error {
        cause.to_string()
    } else {
        error.to_string()
    }
}

/// Returns the client's error, also from where it is a source in a box or is shared.
fn kube_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a kube::Error> {
    let boxed = || error.downcast_ref::<Box<kube::Error>>().map(|boxed| &**boxed);
    let shared = || error.downcast_ref::<Arc<kube::Error>>().map(|shared| &**shared);
    error.downcast_ref().or_else(boxed).or_else(shared)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::runtime::watcher;

    use super::*;

    #[test]
    fn what_the_api_said_is_told_in_its_own_words() {
        let said = "pods \"a\" is forbidden: exceeded quota";
        let refused = kube::Error::Api(Box::new(Status::failure(said, "Forbidden")));
        assert_eq!(words(&refused), said);
        let mut silent = Status::failure("", "InternalError");
        silent.code = 500;
        let silent = kube::Error::Api(Box::new(silent));
        assert_eq!(words(&silent), "the API answered 500: InternalError");
        let broken = serde_json::from_str::<u8>("x").unwrap_err();
        assert_eq!(words(&kube::Error::SerdeError(broken)), "expected value at line 1 column 1");
    }

    #[test]
    fn log_lines_say_each_cause_once_and_nothing_in_the_words_of_rust() {
        let said = "pods \"a\" is forbidden: exceeded quota";
        let refused = || kube::Error::Api(Box::new(Status::failure(said, "Forbidden")));
        let broken = || kube::Error::Service("connection refused".into());
        let cases: [(Box<dyn std::error::Error>, String); 5] = [
            (refused().into(), said.to_owned()),
            (
                Error::api("create a pod")(refused()).into(),
                format!("could not create a pod: {said}"),
            ),
            (
                watcher::Error::InitialListFailed(refused()).into(),
                format!("failed to perform initial object list: {said}"),
            ),
            (broken().into(), "connection refused".to_owned()),
            (
                watcher::Error::WatchStartFailed(broken()).into(),
                "failed to start watching object: connection refused".to_owned(),
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(explain(&*error), expected);
        }
    }
}
