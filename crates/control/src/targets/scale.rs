//! Reads and sets the size of a target within a time limit.

use std::time::Duration;

use connect::targets::{Target, TargetError, TargetSize, Version};

/// The longest and the shortest time that a request to a target may take.
const LONGEST: Duration = Duration::from_secs(30);
const SHORTEST: Duration = Duration::from_secs(5);

/// The outcome of a decision about the size of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was nothing to do.
    Held,
    /// The policy is a dry run.
    DryRun,
    /// The target has its new size.
    Applied,
    /// The target has changed since its size was read: the policy is evaluated again.
    Conflict(String),
    /// The target had changed to the decided size already, by another process of ours or another client.
    SameSize(String),
    /// The target was not scaled, for this reason.
    Failed(String),
    /// It is not known whether the target was scaled; the next evaluation finds out.
    Unknown(String),
}

/// Reads the size of a target.
pub(crate) async fn read(
    target: &dyn Target,
    interval: Duration,
) -> Result<TargetSize, TargetError> {
    within(interval, target.size()).await.map_err(|error| {
        if let TargetError::Unknown { target, message } = error {
            TargetError::Unavailable { target, message }
        } else {
            error
        }
    })
}

/// Sets the size of a target that is still at `version`.
pub(crate) async fn scale(
    target: &dyn Target,
    to: i64,
    version: &Version,
    interval: Duration,
) -> Outcome {
    let to = u32::try_from(to).unwrap_or(u32::MAX);
    match within(interval, target.scale(to, version)).await {
        Ok(()) => Outcome::Applied,
        Err(error @ TargetError::Conflict { .. }) => {
            let is_done = read(target, interval).await.is_ok_and(|current| current.count == to);
            let text = error.to_string();
            if is_done { Outcome::SameSize(text) } else { Outcome::Conflict(text) }
        }
        Err(error @ (TargetError::Refused { .. } | TargetError::Unavailable { .. })) => {
            Outcome::Failed(error.to_string())
        }
        Err(error @ TargetError::Unknown { .. }) => Outcome::Unknown(error.to_string()),
    }
}

/// Waits for a target, about as long as until the next evaluation.
async fn within<T>(
    interval: Duration,
    request: impl Future<Output = Result<T, TargetError>>,
) -> Result<T, TargetError> {
    let limit = interval.clamp(SHORTEST, LONGEST);
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", limit.as_secs());
        Err(TargetError::Unknown { target: "the target".to_owned(), message })
    })
}
