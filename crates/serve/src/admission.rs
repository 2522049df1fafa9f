//! Admission webhooks: defaults and validation of our kinds on a cluster, as the embedded engine has them built in.
//!
//! `/mutate` applies defaults, `/validate` rejects invalid objects. `/mutate` lets invalid objects pass, so that `/validate`,
//! or the schema before it, reports the error.

mod patch;

use api::{Admission, Kind, Problem};
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::Timestamp;
use process::Clock;
use serde::Deserialize;
use serde_json::{Value, json};

/// The largest review: an object may have 3 MiB, and there may be two of them.
const BODY_LIMIT: usize = 8 << 20;

/// Returns the routes that a cluster's webhook configurations point to.
pub fn router(clock: Clock) -> Router {
    let reviewed_by = |work: fn(&Request, Timestamp) -> Value| {
        let clock = clock.clone();
        post(async move |body| review(body, work, clock.now()))
    };
    Router::new()
        .route("/mutate", reviewed_by(mutate))
        .route("/validate", reviewed_by(validate))
        .route("/healthz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

/// The request of an AdmissionReview.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: GroupVersionKind,
    /// The name of the object; empty before the API server has generated one.
    #[serde(default)]
    name: String,
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
    /// Returns the kind of the object; `None` for kinds of others, and for deletions.
    fn kind(&self) -> Option<&'static Kind> {
        let GroupVersionKind { group, version, kind } = &self.kind;
        api::find(Some(&format!("{group}/{version}")), kind).filter(|_| self.object.is_object())
    }

    /// Returns the object with defaults, as it would be stored.
    fn admitted(&self, kind: &Kind, now: Timestamp) -> Result<Value, Vec<Problem>> {
        let mut object = self.object.clone();
        (kind.admit)(&mut object, &self.admission(now))?;
        Ok(object)
    }

    /// Returns the object without empty values that stand for unset fields.
    fn prepared(&self, kind: &Kind, now: Timestamp) -> Value {
        let mut object = self.object.clone();
        (kind.prepare)(&mut object, &self.admission(now));
        object
    }

    fn admission(&self, now: Timestamp) -> Admission<'_> {
        let old = Some(&self.old_object).filter(|old| old.is_object());
        Admission { old, now }
    }
}

fn review(
    body: Result<Json<Review>, axum::extract::rejection::JsonRejection>,
    work: fn(&Request, Timestamp) -> Value,
    now: Timestamp,
) -> Result<Json<Value>, (StatusCode, String)> {
    let Json(Review { request }) = body.map_err(|err| {
        (err.status(), format!("expected an AdmissionReview: {}", err.body_text()))
    })?;
    let mut verdict = work(&request, now);
    verdict["uid"] = request.uid.into();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict,
    });
    Ok(Json(review))
}

fn mutate(request: &Request, now: Timestamp) -> Value {
    let allowed = json!({"allowed": true});
    let Some(kind) = request.kind() else { return allowed };
    // The schema must not reject empty values of an invalid object before `/validate` reports the real error.
    let desired = request.admitted(kind, now).unwrap_or_else(|_| request.prepared(kind, now));
    match patch::between(&request.object, &desired) {
        changes if changes.is_empty() => allowed,
        changes => json!({
            "allowed": true, "patchType": "JSONPatch", "patch": patch::encode(&changes),
        }),
    }
}

fn validate(request: &Request, now: Timestamp) -> Value {
    match request.kind().map(|kind| (kind, request.admitted(kind, now))) {
        Some((kind, Err(problems))) => {
            json!({"allowed": false, "status": api::refusal(kind, &request.name, &problems)})
        }
        Some((_, Ok(_))) | None => json!({"allowed": true}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(group: &str, kind: &str, object: Value) -> Request {
        let (group, version) = group.split_once('/').unwrap();
        let kind =
            GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Request { uid: "1".to_owned(), kind, name, object, old_object: Value::Null }
    }

    fn fleet(replicas: i64, container: Value) -> Request {
        let template = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let spec = json!({"replicas": replicas, "template": template});
        let object = json!({"apiVersion": "agones.dev/v1", "kind": "Fleet",
            "metadata": {"name": "simple"}, "spec": spec});
        request("agones.dev/v1", "Fleet", object)
    }

    #[test]
    fn a_fleet_gets_its_defaults_by_a_patch() {
        let request = fleet(1, json!({"name": "game", "image": "game:1"}));
        let response = mutate(&request, Timestamp::UNIX_EPOCH);
        assert_eq!(
            (&response["allowed"], &response["patchType"]),
            (&json!(true), &json!("JSONPatch"))
        );
        let admitted = request.admitted(request.kind().unwrap(), Timestamp::UNIX_EPOCH).unwrap();
        let changes = patch::between(&request.object, &admitted);
        let strategy = changes.iter().find(|change| change["path"] == "/spec/strategy").unwrap();
        assert_eq!(strategy["value"]["type"], "RollingUpdate");
        assert_eq!(validate(&request, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
    }

    #[test]
    fn an_invalid_fleet_passes_mutate_and_is_rejected_by_validate_with_its_field() {
        let request = fleet(-1, json!({"name": "game", "image": "game:1"}));
        assert_eq!(mutate(&request, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
        let response = validate(&request, Timestamp::UNIX_EPOCH);
        assert_eq!(response["allowed"], false);
        let status = &response["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
    }

    #[test]
    fn empty_values_are_removed_from_an_invalid_fleet_before_the_schema_checks_it() {
        let mut request = fleet(1, json!({"name": "game", "image": "game:1"}));
        request.object["spec"]["scheduling"] = "".into();
        request.object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0}});
        let response = mutate(&request, Timestamp::UNIX_EPOCH);
        let patch = patch::encode(&[json!({"op": "remove", "path": "/spec/scheduling"})]);
        assert_eq!(response["patch"], patch);
        let causes = &validate(&request, Timestamp::UNIX_EPOCH)["status"]["details"]["causes"];
        assert_eq!(causes[0]["field"], "spec.strategy.rollingUpdate.maxSurge");
    }

    #[test]
    fn other_kinds_and_deletions_are_allowed() {
        let pod = request("/v1", "Pod", json!({"spec": {}}));
        let deleted = request("agones.dev/v1", "Fleet", Value::Null);
        for request in [pod, deleted] {
            assert_eq!(mutate(&request, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
            assert_eq!(validate(&request, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
        }
    }
}
