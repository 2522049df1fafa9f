//! What every part that handles requests shares: the caller, the body of an answer, and the size of a request.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// The largest body of a request.
pub(crate) const BODY_LIMIT: usize = 3 << 20;

/// The body of an answer: all at once, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// The user who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user name.
    pub user: String,
    /// The groups that the user belongs to.
    pub groups: Vec<String>,
}

impl Caller {
    /// Returns the only user: everyone with the token, and everything in this process.
    pub(crate) fn admin() -> Self {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        Self { user: "plimsoll:admin".to_owned(), groups }
    }
}
