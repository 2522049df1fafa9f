//! The errors of SDK calls, for both transports.
//!
//! Messages begin as those of Agones' SDK server do, since games match on them.

use decide::gameserver::sdk::Rejected;
use tonic::{Code, Status};

use super::core::WriteMode;

/// Why a call is rejected. A rejected call changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// An argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// There is no such counter, list, value or game server.
    #[error("{0}")]
    NotFound(String),
    /// The value already exists.
    #[error("already exists. {0}")]
    AlreadyExists(String),
    /// A count or capacity is out of range, or there is no room.
    #[error("{0}")]
    OutOfRange(String),
    /// The game server could not be read in time.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// The object of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Counter(&'a str),
    /// A list, and the value that is added or removed.
    List(&'a str, &'a str),
    Players,
}

impl CallError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::AlreadyExists(_) => Code::AlreadyExists,
            Self::OutOfRange(_) => Code::OutOfRange,
            Self::Unavailable(_) => Code::Unavailable,
        }
    }

    /// Returns the error for an invalid argument.
    pub(super) fn invalid_argument(why: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("invalid argument. {why}"))
    }

    /// Returns the error for a counter that the game server does not have.
    pub(super) fn counter_not_found(name: &str, mode: WriteMode) -> Self {
        Self::NotFound(match mode {
            WriteMode::Deferred => format!("counter not found: {name}"),
            WriteMode::Immediate => format!("not found. {name} Counter not found"),
        })
    }

    /// Returns the error for a list that the game server does not have.
    pub(super) fn list_not_found(name: &str, mode: WriteMode) -> Self {
        Self::NotFound(match mode {
            WriteMode::Deferred => format!("list not found: {name}"),
            WriteMode::Immediate => format!("not found. {name} List not found"),
        })
    }

    /// Returns the error for a rejected change of a counter, a list or the players.
    pub(super) fn rejected(subject: Subject<'_>, rejected: Rejected) -> Self {
        match (rejected, subject) {
            (Rejected::Nothing, Subject::Counter(name)) => Self::invalid_argument(format!(
                "Malformed CounterUpdateRequest: expected count, capacity or countDiff for {name}"
            )),
            (Rejected::Nothing, Subject::List(..) | Subject::Players) => {
                Self::invalid_argument("the request changes nothing")
            }
            (Rejected::Capacity(found), Subject::List(..)) => Self::OutOfRange(format!(
                "out of range. Capacity must be within range [0,1000]. Found Capacity: {found}"
            )),
            (Rejected::Capacity(found), Subject::Counter(_) | Subject::Players) => {
                Self::OutOfRange(format!(
                    "out of range. Capacity must be greater than or equal to 0. Found Capacity: {found}"
                ))
            }
            (Rejected::OutOfRange { count, capacity }, _) => Self::OutOfRange(format!(
                "out of range. Count must be within range [0,Capacity]. Found Count: {count}, Capacity: {capacity}"
            )),
            (Rejected::Full { .. }, Subject::Players) => {
                Self::OutOfRange("players are already at capacity".to_owned())
            }
            (Rejected::Full { capacity, length }, _) => Self::OutOfRange(format!(
                "out of range. No available capacity. Current Capacity: {capacity}, List Size: {length}"
            )),
            (Rejected::Duplicate, Subject::List(name, value)) => {
                Self::AlreadyExists(format!("Value: {value} already in List: {name}"))
            }
            (Rejected::NotThere, Subject::List(name, value)) => {
                Self::NotFound(format!("not found: value {value} not in list {name}"))
            }
            (Rejected::Duplicate, _) => Self::AlreadyExists("the value already exists".to_owned()),
            (Rejected::NotThere, _) => Self::NotFound("not found: no such value".to_owned()),
        }
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
