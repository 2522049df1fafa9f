//! Why a call is refused, in words that both transports carry.
//!
//! Messages begin with the words of Agones' SDK server, which are what games know a refusal by.

use decide::gameserver::sdk::Rejected;
use tonic::{Code, Status};

use super::core::Writes;

/// Why a call is refused. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such counter, list, value or game server.
    #[error("{0}")]
    NotFound(String),
    /// The value is there already.
    #[error("already exists. {0}")]
    Exists(String),
    /// It does not fit.
    #[error("{0}")]
    OutOfRange(String),
    /// The game server could not be read in time.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Counter(&'a str),
    /// A list, and the value that is added or removed.
    List(&'a str, &'a str),
    Players,
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

    /// Reports an argument that makes no sense.
    pub(super) fn argument(why: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("invalid argument. {why}"))
    }

    /// Reports a counter that the game server does not have.
    pub(super) fn no_counter(name: &str, writes: Writes) -> Self {
        Self::NotFound(match writes {
            Writes::Behind => format!("counter not found: {name}"),
            Writes::Here => format!("not found. {name} Counter not found"),
        })
    }

    /// Reports a list that the game server does not have.
    pub(super) fn no_list(name: &str, writes: Writes) -> Self {
        Self::NotFound(match writes {
            Writes::Behind => format!("list not found: {name}"),
            Writes::Here => format!("not found. {name} List not found"),
        })
    }

    /// Reports why a change of a counter, a list or the players is refused.
    pub(super) fn about(subject: Subject<'_>, rejected: Rejected) -> Self {
        match (rejected, subject) {
            (Rejected::Nothing, Subject::Counter(name)) => Self::argument(format!(
                "Malformed CounterUpdateRequest: expected count, capacity or countDiff for {name}"
            )),
            (Rejected::Nothing, Subject::List(..) | Subject::Players) => {
                Self::argument("the request changes nothing")
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
                Self::Exists(format!("Value: {value} already in List: {name}"))
            }
            (Rejected::NotThere, Subject::List(name, value)) => {
                Self::NotFound(format!("not found: value {value} not in list {name}"))
            }
            (Rejected::Duplicate, _) => Self::Exists("the value is there already".to_owned()),
            (Rejected::NotThere, _) => Self::NotFound("not found: no such value".to_owned()),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}
