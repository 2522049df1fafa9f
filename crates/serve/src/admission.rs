//! Admission webhooks: defaults and validation of our kinds on a cluster, as the embedded engine has them built in.
//!
//! `/mutate` fills in, `/validate` refuses. What cannot be read passes `/mutate` untouched, so that `/validate`, or the
//! schema before it, says what is wrong.

mod patch;

use api::{Admission, Kind, Problem};
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest review: an object may have 3 MiB, and there may be two of them.
const BODY_LIMIT: usize = 8 << 20;

/// Gives the service that a cluster's webhook configurations point to.
pub fn router() -> Router {
    Router::new()
        .route("/mutate", post(|body| async { review(body, mutate) }))
        .route("/validate", post(|body| async { review(body, validate) }))
        .route("/healthz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

/// What the API server asks about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: GroupVersionKind,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

impl Request {
    /// Finds what to do with the object; `None` for kinds that are not ours, and for deletions.
    fn kind(&self) -> Option<&'static Kind> {
        let GroupVersionKind { group, version, kind } = &self.kind;
        api::find(Some(&format!("{group}/{version}")), kind).filter(|_| self.object.is_object())
    }

    /// Gives the object as it would be stored.
    fn admitted(&self, kind: &Kind) -> Result<Value, Vec<Problem>> {
        let mut object = self.object.clone();
        let old = Some(&self.old_object).filter(|old| old.is_object());
        (kind.admit)(&mut object, &Admission { old, now: Timestamp::now() })?;
        Ok(object)
    }
}

fn review(
    body: Result<Json<Review>, axum::extract::rejection::JsonRejection>,
    work: fn(&Request) -> Value,
) -> Result<Json<Value>, (StatusCode, String)> {
    let Json(Review { request }) = body.map_err(|err| {
        (err.status(), format!("expected an AdmissionReview: {}", err.body_text()))
    })?;
    let mut response = work(&request);
    response["uid"] = request.uid.into();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    });
    Ok(Json(answer))
}

fn mutate(request: &Request) -> Value {
    let allowed = json!({"allowed": true});
    let Some(Ok(admitted)) = request.kind().map(|kind| request.admitted(kind)) else {
        return allowed;
    };
    match patch::between(&request.object, &admitted) {
        changes if changes.is_empty() => allowed,
        changes => json!({
            "allowed": true, "patchType": "JSONPatch", "patch": patch::encode(&changes),
        }),
    }
}

fn validate(request: &Request) -> Value {
    match request.kind().map(|kind| (kind, request.admitted(kind))) {
        Some((kind, Err(problems))) => {
            json!({"allowed": false, "status": refusal(kind, &request.object, &problems)})
        }
        Some((_, Ok(_))) | None => json!({"allowed": true}),
    }
}

/// Says no as the API server itself would, with a cause for each field.
fn refusal(kind: &Kind, object: &Value, problems: &[Problem]) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let causes: Vec<Value> = problems
        .iter()
        .map(|problem| {
            let message = format!("Invalid value: {}", problem.message);
            json!({"reason": "FieldValueInvalid", "message": message, "field": problem.path})
        })
        .collect();
    let said: Vec<String> =
        problems.iter().map(|p| format!("{}: Invalid value: {}", p.path, p.message)).collect();
    let said = match said.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": 422, "reason": "Invalid",
        "message": format!("{}.{} \"{name}\" is invalid: {said}", kind.kind, kind.group),
        "details": {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(group: &str, kind: &str, object: Value) -> Request {
        let (group, version) = group.split_once('/').unwrap();
        let kind =
            GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
        Request { uid: "1".to_owned(), kind, object, old_object: Value::Null }
    }

    fn fleet(replicas: i64, container: Value) -> Request {
        let template = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let spec = json!({"replicas": replicas, "template": template});
        let object = json!({"apiVersion": "agones.dev/v1", "kind": "Fleet",
            "metadata": {"name": "simple"}, "spec": spec});
        request("agones.dev/v1", "Fleet", object)
    }

    #[test]
    fn a_fleet_is_filled_in_by_a_patch() {
        let asked = fleet(1, json!({"name": "game", "image": "game:1"}));
        let answer = mutate(&asked);
        assert_eq!((&answer["allowed"], &answer["patchType"]), (&json!(true), &json!("JSONPatch")));
        let admitted = asked.admitted(asked.kind().unwrap()).unwrap();
        let changes = patch::between(&asked.object, &admitted);
        let strategy = changes.iter().find(|change| change["path"] == "/spec/strategy").unwrap();
        assert_eq!(strategy["value"]["type"], "RollingUpdate");
        assert_eq!(validate(&asked), json!({"allowed": true}));
    }

    #[test]
    fn a_bad_fleet_passes_the_one_and_is_refused_by_the_other_with_its_field() {
        let asked = fleet(-1, json!({"name": "game", "image": "game:1"}));
        assert_eq!(mutate(&asked), json!({"allowed": true}));
        let answer = validate(&asked);
        assert_eq!(answer["allowed"], false);
        let status = &answer["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
    }

    #[test]
    fn what_is_not_ours_and_what_is_being_deleted_passes() {
        let pod = request("/v1", "Pod", json!({"spec": {}}));
        let deleted = request("agones.dev/v1", "Fleet", Value::Null);
        for asked in [pod, deleted] {
            assert_eq!(mutate(&asked), json!({"allowed": true}));
            assert_eq!(validate(&asked), json!({"allowed": true}));
        }
    }
}
