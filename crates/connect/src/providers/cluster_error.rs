//! What an error of an API server means for a request to a provider that keeps its groups there.

use cluster::error::{api_message, status_code};

use super::ProviderError;

/// Returns the error of groups that could not be read.
pub(super) fn read_error(error: &kube::Error) -> ProviderError {
    ProviderError::Unavailable { message: api_message(error) }
}

/// Returns the error of a change that was refused, or whose outcome is not known.
pub(super) fn write_error(group: &str, error: &kube::Error) -> ProviderError {
    let (group, message) = (group.to_owned(), api_message(error));
    match status_code(error) {
        Some(409 | 429 | 503) => ProviderError::Unavailable { message },
        Some(400..=499) => ProviderError::Refused { group, message },
        Some(_) | None => ProviderError::Unknown { group, message },
    }
}

/// Returns the error of a change that this provider refuses.
pub(super) fn refused(group: &str, message: impl Into<String>) -> ProviderError {
    ProviderError::Refused { group: group.to_owned(), message: message.into() }
}
