//! Why a reconciliation failed. The work queue retries every failure.

use std::sync::Arc;
use std::time::Duration;

use crate::Key;

/// Why a reconciliation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused the request or did not answer.
    #[error("could not {what}")]
    Api {
        /// The attempted action.
        what: &'static str,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// An object that is to be created exists, and another object controls it.
    #[error("a {kind} of this name exists, and another object controls it")]
    NotControlled {
        /// The kind of the object.
        kind: &'static str,
    },
    /// The reconciliation panicked: a bug.
    #[error("the reconciliation panicked")]
    Panicked,
}

impl Error {
    /// Returns a function that wraps a client error and names the attempted action.
    pub fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// Whether another client wrote first: the watch will deliver the newer object.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if status_code(source) == Some(409))
    }

    /// Whether the object no longer exists.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source, .. } if status_code(source) == Some(404))
    }

    /// Whether the object cannot be created because its namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        let Self::Api { source, .. } = self else { return false };
        let kube::Error::Api(status) = &**source else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Returns the cause in one sentence: the API server's message, where it sent one.
    pub fn message(&self) -> String {
        match self {
            Self::Api { source, .. } => api_message(source),
            Self::NotControlled { .. } | Self::Panicked => self.to_string(),
        }
    }

    pub(crate) fn log(&self, key: &Key, retry_after: Duration) {
        let error = explain(self);
        if self.is_conflict() {
            tracing::debug!(%key, %error, "the object has changed; reconciling again");
        } else {
            tracing::warn!(%key, %error, ?retry_after, "reconciliation failed; retrying");
        }
    }
}

/// Returns the HTTP status code of a refused request.
pub fn status_code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error { Some(status.code) } else { None }
}

/// Returns the API server's message, or the innermost cause where it did not answer.
pub fn api_message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() {
            format!("the API server answered {}: {}", status.code, status.reason)
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

/// Returns an error and its causes for a log line, with the API server's message in place of the client's own wording.
pub fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let text = process::log::chain(error);
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(of_kube) = kube_error(cause) {
            return text.replace(&of_kube.to_string(), &client_error_text(of_kube));
        }
        next = cause.source();
    }
    text
}

/// Returns the log text of a client error. Some of them only name the type of their cause.
fn client_error_text(error: &kube::Error) -> String {
    if let kube::Error::Api(_) = error {
        api_message(error)
    } else if let kube::Error::Service(cause) = error {
        cause.to_string()
    } else if let kube::Error::HyperError(cause) = error {
        cause.to_string()
    } else {
        error.to_string()
    }
}

/// Returns the client error, also where it is boxed or shared.
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
    fn the_message_is_that_of_the_api_server() {
        let message = "pods \"a\" is forbidden: exceeded quota";
        let refused = kube::Error::Api(Box::new(Status::failure(message, "Forbidden")));
        assert_eq!(api_message(&refused), message);
        let mut silent = Status::failure("", "InternalError");
        silent.code = 500;
        let silent = kube::Error::Api(Box::new(silent));
        assert_eq!(api_message(&silent), "the API server answered 500: InternalError");
        let broken = serde_json::from_str::<u8>("x").unwrap_err();
        assert_eq!(
            api_message(&kube::Error::SerdeError(broken)),
            "expected value at line 1 column 1"
        );
    }

    #[test]
    fn log_lines_name_each_cause_once_and_without_debug_text() {
        let message = "pods \"a\" is forbidden: exceeded quota";
        let refused = || kube::Error::Api(Box::new(Status::failure(message, "Forbidden")));
        let broken = || kube::Error::Service("connection refused".into());
        let cases: [(Box<dyn std::error::Error>, String); 5] = [
            (refused().into(), message.to_owned()),
            (
                Error::api("create a pod")(refused()).into(),
                format!("could not create a pod: {message}"),
            ),
            (
                watcher::Error::InitialListFailed(refused()).into(),
                format!("failed to perform initial object list: {message}"),
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
