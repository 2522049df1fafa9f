//! How does the API say no?
//!
//! Every refusal is a `Status` with a code, a reason for programs and a sentence for people, worded as kube-apiserver
//! words it, because clients and scripts match on all three.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::store::Unreadable;
use apimachinery::resource::Resource;

/// A refusal, as the API answers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    /// The HTTP status code.
    pub(crate) code: u16,
    /// The reason for programs; empty when there is none.
    pub(crate) reason: &'static str,
    /// The sentence for people.
    pub(crate) message: String,
    /// What it is about; `None` leaves the field out.
    pub(crate) details: Option<Map<String, Value>>,
    /// Where a list that got too old can be taken up again.
    pub(crate) carry_on: Option<String>,
}

/// What a request gives when all goes well, or why it was refused.
pub(crate) type Answer<T> = Result<T, Box<Status>>;

impl Status {
    /// Makes a refusal without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { code, reason, message: message.into(), details: None, carry_on: None })
    }

    /// Refuses about one object, which the details name.
    pub(crate) fn about(
        code: u16,
        reason: &'static str,
        resource: &Resource,
        name: &str,
        message: impl Into<String>,
    ) -> Box<Self> {
        let details = Some(details(name, &resource.group, &resource.plural));
        Box::new(Self { code, reason, message: message.into(), details, carry_on: None })
    }

    /// Says that there is no such object.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::about(404, "NotFound", resource, name, message)
    }

    /// Says that nothing is served at an address.
    pub(crate) fn no_such_resource() -> Box<Self> {
        let message = "the server could not find the requested resource";
        let mut status = Self::new(404, "NotFound", message);
        status.details = Some(Map::new());
        status
    }

    /// Says that an object of that name is there.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Box<Self> {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::about(409, "AlreadyExists", resource, name, message)
    }

    /// Says why an object cannot be changed now.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::about(409, "Conflict", resource, name, message)
    }

    /// Says that someone else changed the object first.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Box<Self> {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// Says that a request makes no sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    /// Says that a request is understood and not allowed.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = if name.is_empty() {
            format!("{} is forbidden: {why}", resource.qualified())
        } else {
            format!("{} \"{name}\" is forbidden: {why}", resource.qualified())
        };
        Self::about(403, "Forbidden", resource, name, message)
    }

    /// Says that a verb is not served at an address.
    pub(crate) fn method_not_allowed() -> Box<Self> {
        let message = "the server does not allow this method on the requested resource";
        let mut status = Self::new(405, "MethodNotAllowed", message);
        status.details = Some(Map::new());
        status
    }

    /// Says that a version is no longer known.
    pub(crate) fn expired(message: impl Into<String>) -> Box<Self> {
        Self::new(410, "Expired", message)
    }

    /// Says that the fault is ours.
    pub(crate) fn internal(message: impl fmt::Display) -> Box<Self> {
        let mut status =
            Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        let cause = json!({"causes": [{"message": message.to_string()}]});
        status.details = cause.as_object().cloned();
        status
    }

    /// Says that a stored object cannot be read.
    pub(crate) fn unreadable(resource: &Resource, name: &str, why: &Unreadable) -> Box<Self> {
        let what = resource.qualified();
        Self::internal(format!("{what} \"{name}\" cannot be read: {why}; it can only be deleted"))
    }

    /// Says that nothing can be written at present, and that it is worth trying again.
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

    /// Tells the client when to try again.
    pub(crate) fn retry_after(mut self: Box<Self>, seconds: u32) -> Box<Self> {
        self.details.get_or_insert_default().insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// Gives the seconds after which to try again, if it says so.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Writes it as the API's JSON.
    pub(crate) fn json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(token) = &self.carry_on {
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

/// Names what a refusal is about, leaving out what is empty.
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
    fn a_refusal_names_what_it_is_about_as_kube_apiserver_does() {
        let served = Registry::built_in().served();
        let deployments = served.find("apps", "v1", "deployments").unwrap();
        let said = Status::not_found(deployments, "web").json();
        assert_eq!(said["message"], r#"deployments.apps "web" not found"#);
        assert_eq!(said["details"], json!({"name": "web", "group": "apps", "kind": "deployments"}));
        assert_eq!((&said["code"], &said["reason"]), (&json!(404), &json!("NotFound")));
    }
}
