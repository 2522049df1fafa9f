//! Answers access and token reviews.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Reply, decode, owner};
use crate::authentication::{self, Authenticated};
use crate::authorization::{self, Action};
use crate::request::Caller;
use crate::status::ApiResult;
use apimachinery::resource::Review;

/// Answers a review, which is never stored.
pub(super) fn answer(call: &Call, kind: Review) -> ApiResult<Reply> {
    let mut review = decode::object(call)?;
    owner::record_create(call, &mut review);
    let (core, caller) = (&call.core, &call.caller);
    let status = match kind {
        Review::Token => token_review(call, &review),
        Review::Caller => json!({"userInfo": caller.info()}),
        Review::CallerRules => {
            let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
            authorization::rules_review(core, caller, namespace)
        }
        Review::CallerAccess => access_review(call, caller, &review),
        Review::UserAccess => {
            let user = review["spec"]["user"].as_str().unwrap_or_default();
            let subject = if user == Caller::admin().user {
                Caller::admin()
            } else {
                Caller::new(user, &texts(&review["spec"]["groups"]))
            };
            access_review(call, &subject, &review)
        }
    };
    review["status"] = status;
    Ok(call.show_value(201, &review))
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn token_review(call: &Call, review: &Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    let audiences = texts(&review["spec"]["audiences"]);
    match authentication::authenticate(&call.core, token, &audiences) {
        Ok(Authenticated { caller, audiences }) => {
            let mut status = json!({"authenticated": true, "user": caller.info()});
            if let Some(audiences) = audiences {
                status["audiences"] = audiences.into();
            }
            status
        }
        Err(why) => json!({"user": {}, "error": format!("[{why}]")}),
    }
}

fn access_review(call: &Call, subject: &Caller, review: &Value) -> Value {
    let spec = &review["spec"];
    let asked = if spec["resourceAttributes"].is_object() {
        Resource::deserialize(&spec["resourceAttributes"]).map(Resource::action)
    } else {
        Path::deserialize(&spec["nonResourceAttributes"]).map(Path::action)
    };
    let is_allowed = subject.is_admin()
        || asked.is_ok_and(|action| authorization::is_allowed(&call.core, subject, &action));
    json!({"allowed": is_allowed})
}

/// The attributes of a request for a resource.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

impl Resource {
    fn action(self) -> Action {
        let Self { namespace, verb, group, resource, subresource, name } = self;
        Action::Resource { verb, group, resource, subresource, namespace, name }
    }
}

/// The attributes of any other request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Path {
    path: String,
    verb: String,
}

impl Path {
    fn action(self) -> Action {
        Action::Path { verb: self.verb, path: self.path }
    }
}
