//! Enforces the size limit of stored objects.
//!
//! The size of a request is limited, but many requests can make one object larger and larger: patches that copy, managers that
//! each own fields. So the resulting object is measured, here for all writes. A larger object that an earlier version stored can
//! still be read and deleted, and may become smaller.

use super::Call;
use crate::request::BODY_LIMIT;
use crate::status::Status;
use crate::store::{Body, Object, Write, WriteError};
use apimachinery::resource::Resource;

/// The largest JSON of an object that a request may leave: twice the limit of a body, since `managedFields` take as much again.
const OBJECT_LIMIT: usize = 2 * BODY_LIMIT;
/// The size that the API server itself may add to an object at the limit: a status, a binding.
const ENGINE_ROOM: usize = 64 << 10;

/// Why an object was not stored.
pub(super) enum NotStored {
    /// The stored object is not the one that the write was made from.
    Conflict,
    /// It is refused whatever the stored object is.
    Refused(Box<Status>),
}

impl Call {
    /// Stores an object in place of `old`, if that is still the stored one and the new one is not too large.
    pub(super) async fn write(
        &self,
        resource: &Resource,
        name: &str,
        old: Option<&Object>,
        write: Write,
    ) -> Result<Object, NotStored> {
        if let Some(body) = &write.body {
            self.check_size(resource, name, old, body)?;
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
        old: Option<&Object>,
        body: &Body,
    ) -> Result<(), NotStored> {
        let limit = OBJECT_LIMIT + if self.is_internal { ENGINE_ROOM } else { 0 };
        let (size, before) = (body.size(), old.map_or(0, Object::size));
        if size <= limit.max(before) {
            return Ok(());
        }
        let message = format!(
            "Request entity too large: {} \"{name}\" would be {size} bytes; the limit is {limit}",
            resource.qualified()
        );
        let status = Status::for_object(413, "RequestEntityTooLarge", resource, name, message);
        Err(NotStored::Refused(status))
    }
}
