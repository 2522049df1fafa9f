//! API errors.
//!
//! Every error is a `Status` with a code, a machine-readable reason and a message, worded as kube-apiserver words it, because
//! clients and scripts match on all three.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::store::Unreadable;
use apimachinery::resource::Resource;

/// An API error, the failure form of `metav1.Status`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    /// The HTTP status code.
    pub(crate) code: u16,
    /// The machine-readable reason; may be empty.
    pub(crate) reason: &'static str,
    /// The human-readable message.
    pub(crate) message: String,
    /// The `details` field; `None` omits it.
    pub(crate) details: Option<Map<String, Value>>,
    /// The token with which an expired list can be continued inconsistently.
    pub(crate) continue_token: Option<String>,
}

/// The result of handling a request.
pub(crate) type ApiResult<T> = Result<T, Box<Status>>;

impl Status {
    /// Returns an error without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        })
    }

    /// Returns an error whose details name an object.
    pub(crate) fn for_object(
        code: u16,
        reason: &'static str,
        resource: &Resource,
        name: &str,
        message: impl Into<String>,
    ) -> Box<Self> {
        let details = Some(details(name, &resource.group, &resource.plural));
        Box::new(Self { code, reason, message: message.into(), details, continue_token: None })
    }

    /// The object does not exist.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::for_object(404, "NotFound", resource, name, message)
    }

    /// No resource is served at this path.
    pub(crate) fn no_such_resource() -> Box<Self> {
        let message = "the server could not find the requested resource";
        let mut status = Self::new(404, "NotFound", message);
        status.details = Some(Map::new());
        status
    }

    /// An object of this name exists.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::for_object(409, "AlreadyExists", resource, name, message)
    }

    /// The object cannot be changed now.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::for_object(409, "Conflict", resource, name, message)
    }

    /// The object was changed since the client read it.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Box<Self> {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    /// The request is not allowed.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", resource.qualified())
        } else {
            format!("{} \"{name}\" is forbidden: {why}", resource.qualified())
        };
        Self::for_object(403, "Forbidden", resource, name, message)
    }

    /// The resource does not support this verb.
    pub(crate) fn method_not_allowed() -> Box<Self> {
        let message = "the server does not allow this method on the requested resource";
        let mut status = Self::new(405, "MethodNotAllowed", message);
        status.details = Some(Map::new());
        status
    }

    /// The requested resource version is no longer in the history.
    pub(crate) fn expired(message: impl Into<String>) -> Box<Self> {
        Self::new(410, "Expired", message)
    }

    /// The server failed.
    pub(crate) fn internal(message: impl fmt::Display) -> Box<Self> {
        let mut status =
            Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        let cause = json!({"causes": [{"message": message.to_string()}]});
        status.details = cause.as_object().cloned();
        status
    }

    /// A stored object cannot be read.
    pub(crate) fn unreadable(resource: &Resource, name: &str, why: &Unreadable) -> Box<Self> {
        let what = resource.qualified();
        Self::internal(format!("{what} \"{name}\" cannot be read: {why}; it can only be deleted"))
    }

    /// The store cannot write at present; the client should retry.
    pub(crate) fn unavailable(why: impl fmt::Display) -> Box<Self> {
        Self::new(503, "ServiceUnavailable", format!("the store {why}; try again later"))
            .retry_after(1)
    }

    /// Adds a cause to the details.
    pub(crate) fn cause(mut self: Box<Self>, cause: Value) -> Box<Self> {
        let details = self.details.get_or_insert_default();
        let causes = details.entry("causes").or_insert_with(|| json!([]));
        if let Some(causes) = causes.as_array_mut() {
            causes.push(cause);
        }
        self
    }

    /// Sets `retryAfterSeconds`.
    pub(crate) fn retry_after(mut self: Box<Self>, seconds: u32) -> Box<Self> {
        self.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// Returns `retryAfterSeconds`, if it is set.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Returns the error as JSON.
    pub(crate) fn json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone().into();
        }
        status
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns `details` with the fields that are not empty.
pub(crate) fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    let fields = [("name", name), ("group", group), ("kind", kind)];
    let known = fields.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(key, value)| (key.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::resource::Registry;

    #[test]
    fn an_error_names_its_object_as_kube_apiserver_does() {
        let served = Registry::built_in().served();
        let deployments = served.find("apps", "v1", "deployments").unwrap();
        let error = Status::not_found(deployments, "web").json();
        assert_eq!(error["message"], r#"deployments.apps "web" not found"#);
        assert_eq!(
            error["details"],
            json!({"name": "web", "group": "apps", "kind": "deployments"})
        );
        assert_eq!((&error["code"], &error["reason"]), (&json!(404), &json!("NotFound")));
    }
}
