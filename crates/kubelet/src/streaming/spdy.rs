//! SPDY/3.1, as far as Kubernetes uses it: streams of bytes on one connection, without flow control.
//!
//! Kubernetes' own implementation sends no window updates and honours none. A stream whose reader is slow holds up the
//! whole connection.

mod frame;
mod headers;

pub(super) use frame::{Decoder, Frame, Status, accept, data, ping, reset};
pub(super) use headers::{HeaderEncoder, Headers};

/// Why a connection was ended: its client violated the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProtocolError(String);

impl ProtocolError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}
