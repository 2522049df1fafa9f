//! How large may an object be that is stored?
//!
//! One request is bounded by its body, but many can make one object larger and larger: patches that copy, managers that
//! each own fields. So what a write would leave is measured, here for all writes of objects. An object that an earlier
//! version stored larger than this is still read and deleted, and may become smaller.

use super::Call;
use crate::request::BODY_LIMIT;
use crate::status::Status;
use crate::store::{Body, Object, Write, WriteError};
use apimachinery::resource::Resource;

/// The largest object that a request may leave, as JSON: what a body has room for, and as much again for `managedFields`.
const OBJECT_LIMIT: usize = 2 * BODY_LIMIT;
/// What the engine itself may add to an object that clients have filled: a status, a binding.
const ENGINE_ROOM: usize = 64 << 10;

/// Why an object was not stored.
pub(super) enum NotStored {
    /// The object is not, or no longer, what the write was made from.
    Conflict,
    /// It is refused, whatever is there.
    Refused(Box<Status>),
}

impl Call {
    /// Stores an object of a resource in place of what was `seen` there, if that is still there and the object is not too large.
    pub(super) async fn write(
        &self,
        resource: &Resource,
        name: &str,
        seen: Option<&Object>,
        write: Write,
    ) -> Result<Object, NotStored> {
        if let Some(body) = &write.body {
            self.check_size(resource, name, seen, body)?;
        }
        self.core.store.write(write).await.map_err(|err| match err {
            WriteError::Conflict => NotStored::Conflict,
            WriteError::Failed(why) => NotStored::Refused(Status::unavailable(why)),
        })
    }

    fn check_size(
        &self,
        resource: &Resource,
        name: &str,
        seen: Option<&Object>,
        body: &Body,
    ) -> Result<(), NotStored> {
        let limit = OBJECT_LIMIT + if self.is_internal { ENGINE_ROOM } else { 0 };
        let (size, before) = (body.size(), seen.map_or(0, Object::size));
        if size <= limit.max(before) {
            return Ok(());
        }
        let message = format!(
            "Request entity too large: {} \"{name}\" would be {size} bytes; the limit is {limit}",
            resource.qualified()
        );
        let status = Status::about(413, "RequestEntityTooLarge", resource, name, message);
        Err(NotStored::Refused(status))
    }
}
