//! Types shared by all request handlers: the caller, the response body and the limit on request bodies.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::{Value, json};

/// The maximum size of a request body.
pub(crate) const BODY_LIMIT: usize = 3 << 20;

/// The group whose members may do everything.
const ADMINISTRATORS: &str = "system:masters";

/// The body of a response: complete, or a stream of events.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// The user who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user name.
    pub user: String,
    /// The groups that the user belongs to.
    pub groups: Vec<String>,
    /// The uid of a service account.
    pub uid: Option<String>,
    /// More facts about the user, such as the pod that a token was issued for.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// Returns the administrator: clients with the token of the server, and callers in this process.
    pub(crate) fn admin() -> Self {
        Self::new("plimsoll:admin", &[ADMINISTRATORS, "system:authenticated"])
    }

    /// Returns a user of whom only the name and the groups are known.
    pub(crate) fn new<S: AsRef<str>>(user: &str, groups: &[S]) -> Self {
        let groups = groups.iter().map(|group| group.as_ref().to_owned()).collect();
        Self { user: user.to_owned(), groups, uid: None, extra: BTreeMap::new() }
    }

    /// Whether the user may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == ADMINISTRATORS)
    }

    /// Returns the user as reviews show it.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({"username": self.user, "groups": self.groups});
        if let Some(uid) = &self.uid {
            info["uid"] = uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
