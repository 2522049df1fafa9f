//! Who is asking, and what may they do? There is one user, who may do everything.

use serde_json::{Value, json};

use super::{Call, Reply, decode, owner, pods};
use crate::status::{Answer, Status};

/// Answers a review, which is never stored.
pub(super) async fn create(call: &Call) -> Answer<Reply> {
    if call.resource.kind == "Binding" {
        return pods::create_binding(call).await;
    }
    let mut review = decode::object(call)?;
    owner::note(call, None, &mut review);
    let user = json!({"username": call.caller.user, "groups": call.caller.groups});
    let status = match call.resource.kind.as_str() {
        "TokenReview" => token_review(call, &review, &user),
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "SelfSubjectAccessReview" => json!({"allowed": true}),
        _ => {
            let groups = review["spec"]["groups"].as_array();
            let is_admin = review["spec"]["user"] == call.caller.user.as_str()
                || groups.into_iter().flatten().any(|g| g == "system:masters");
            json!({"allowed": is_admin})
        }
    };
    review["status"] = status;
    Ok(call.show_value(201, &review))
}

fn token_review(call: &Call, review: &Value, user: &Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if call.core.is_token(token) {
        json!({"authenticated": true, "user": user})
    } else {
        json!({"user": {}, "error": "[invalid bearer token]"})
    }
}

/// Service accounts have no tokens of their own here: there is nothing that would tell them apart.
pub(super) fn token(call: &Call) -> Answer<Reply> {
    call.find()?;
    let why = "this server does not issue tokens for service accounts";
    Err(Status::forbidden(&call.resource, call.name(), why))
}
