//! Admission webhooks: defaults and validation of our kinds on a cluster, as the embedded engine has them built in.
//!
//! `/mutate` fills in, `/validate` refuses. What is wrong passes `/mutate`, so that `/validate`, or the schema before it, says
//! so.

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

/// Gives the service that a cluster's webhook configurations point to.
pub fn router(clock: Clock) -> Router {
    let reviewing = |work: fn(&Request, Timestamp) -> Value| {
        let clock = clock.clone();
        post(async move |body| review(body, work, clock.now()))
    };
    Router::new()
        .route("/mutate", reviewing(mutate))
        .route("/validate", reviewing(validate))
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
    /// The name of the object; empty while the API server has yet to make one up.
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
    /// Finds what to do with the object; `None` for kinds that are not ours, and for deletions.
    fn kind(&self) -> Option<&'static Kind> {
        let GroupVersionKind { group, version, kind } = &self.kind;
        api::find(Some(&format!("{group}/{version}")), kind).filter(|_| self.object.is_object())
    }

    /// Returns the object as it would be stored.
    fn admitted(&self, kind: &Kind, now: Timestamp) -> Result<Value, Vec<Problem>> {
        let mut object = self.object.clone();
        (kind.admit)(&mut object, &self.admission(now))?;
        Ok(object)
    }

    /// Returns the object without what its sender did not mean to say.
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
    let mut response = work(&request, now);
    response["uid"] = request.uid.into();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    });
    Ok(Json(answer))
}

fn mutate(request: &Request, now: Timestamp) -> Value {
    let allowed = json!({"allowed": true});
    let Some(kind) = request.kind() else { return allowed };
    // Of an object that will be refused, the schema should not find fault with what nobody set.
    let settled = request.admitted(kind, now).unwrap_or_else(|_| request.prepared(kind, now));
    match patch::between(&request.object, &settled) {
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
    fn a_fleet_is_filled_in_by_a_patch() {
        let asked = fleet(1, json!({"name": "game", "image": "game:1"}));
        let answer = mutate(&asked, Timestamp::UNIX_EPOCH);
        assert_eq!((&answer["allowed"], &answer["patchType"]), (&json!(true), &json!("JSONPatch")));
        let admitted = asked.admitted(asked.kind().unwrap(), Timestamp::UNIX_EPOCH).unwrap();
        let changes = patch::between(&asked.object, &admitted);
        let strategy = changes.iter().find(|change| change["path"] == "/spec/strategy").unwrap();
        assert_eq!(strategy["value"]["type"], "RollingUpdate");
        assert_eq!(validate(&asked, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
    }

    #[test]
    fn a_bad_fleet_passes_the_one_and_is_refused_by_the_other_with_its_field() {
        let asked = fleet(-1, json!({"name": "game", "image": "game:1"}));
        assert_eq!(mutate(&asked, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
        let answer = validate(&asked, Timestamp::UNIX_EPOCH);
        assert_eq!(answer["allowed"], false);
        let status = &answer["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(status["details"]["causes"][0]["field"], "spec.replicas");
    }

    #[test]
    fn the_schema_finds_no_fault_with_what_nobody_set_in_a_fleet_that_will_be_refused() {
        let mut asked = fleet(1, json!({"name": "game", "image": "game:1"}));
        asked.object["spec"]["scheduling"] = "".into();
        asked.object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0}});
        let answer = mutate(&asked, Timestamp::UNIX_EPOCH);
        let patch = patch::encode(&[json!({"op": "remove", "path": "/spec/scheduling"})]);
        assert_eq!(answer["patch"], patch);
        let causes = &validate(&asked, Timestamp::UNIX_EPOCH)["status"]["details"]["causes"];
        assert_eq!(causes[0]["field"], "spec.strategy.rollingUpdate.maxSurge");
    }

    #[test]
    fn what_is_not_ours_and_what_is_being_deleted_passes() {
        let pod = request("/v1", "Pod", json!({"spec": {}}));
        let deleted = request("agones.dev/v1", "Fleet", Value::Null);
        for asked in [pod, deleted] {
            assert_eq!(mutate(&asked, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
            assert_eq!(validate(&asked, Timestamp::UNIX_EPOCH), json!({"allowed": true}));
        }
    }
}
