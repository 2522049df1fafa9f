//! Why a call is refused, in words that both transports carry.

use decide::gameserver::sdk::Rejected;
use tonic::{Code, Status};

/// Why a call is refused. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The call makes no sense.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// There is no such counter, list, value or game server.
    #[error("not found: {0}")]
    NotFound(String),
    /// The value is there already.
    #[error("already exists: {0}")]
    Exists(String),
    /// It does not fit.
    #[error("out of range: {0}")]
    OutOfRange(String),
    /// The game server could not be read in time.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl Refusal {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::Exists(_) => Code::AlreadyExists,
            Self::OutOfRange(_) => Code::OutOfRange,
            Self::Unavailable(_) => Code::Unavailable,
        }
    }

    /// Says why a change of the counter, list or players called `of` is refused.
    pub(super) fn about(of: &str, rejected: Rejected) -> Self {
        match rejected {
            Rejected::Nothing => {
                Self::Invalid(format!("{of}: expected count, capacity or countDiff"))
            }
            Rejected::Capacity(capacity) => {
                Self::OutOfRange(format!("{of}: a capacity of {capacity} is not allowed"))
            }
            Rejected::OutOfRange { count, capacity } => Self::OutOfRange(format!(
                "{of}: {count} is not between 0 and the capacity of {capacity}"
            )),
            Rejected::Full => Self::OutOfRange(format!("{of}: no available capacity")),
            Rejected::Duplicate => Self::Exists(format!("{of}: the value is in the list")),
            Rejected::NotThere => Self::NotFound(format!("{of}: the value is not in the list")),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}
