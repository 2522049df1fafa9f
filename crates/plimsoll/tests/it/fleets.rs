//! Decisions about fleets: the recorded results of the real Agones, and invalid input.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::vectors::check;
use crate::{plimsoll, root};

#[test]
fn autoscalers_decide_as_agones_does() {
    check("agones-fleetautoscaler.jsonl", &[]);
}

#[test]
fn fleets_shrink_as_agones_fleets_do() {
    check("agones-scaledown.jsonl", &[]);
}

#[test]
fn allocations_take_what_agones_takes() {
    check("agones-allocation.jsonl", &[]);
}

#[test]
fn objects_are_admitted_and_refused_as_agones_does() {
    check("agones-validation.jsonl", &[]);
}

/// What typed Go clients send: zero values where nothing was set.
#[test]
fn requests_of_go_clients_are_admitted_and_rejected_as_by_agones() {
    check("agones-go-client.jsonl", &[]);
}

fn evaluate(objects: &[Value], args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(&path, list.to_string()).unwrap();
    let now = ["--now", "2026-03-01T12:00:00Z"];
    plimsoll().args(["evaluate", "-f"]).arg(&path).args(now).args(args).output().unwrap()
}

fn decisions(objects: &[Value]) -> Vec<Value> {
    let done = evaluate(objects, &["-o", "json"]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let printed: Value = serde_json::from_slice(&done.stdout).unwrap();
    printed["decisions"].as_array().unwrap().clone()
}

fn fleet(replicas: i32, allocated: i32) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "game", "image": "g"}]}});
    json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f"},
        "spec": {"replicas": replicas, "template": {"spec": {"template": pod}}},
        "status": {"replicas": replicas, "allocatedReplicas": allocated},
    })
}

fn autoscaler(name: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler", "metadata": {"name": name},
        "spec": {"fleetName": "f", "policy": policy},
    })
}

#[test]
fn a_decision_about_a_fleets_size_says_all_that_it_should() {
    let buffer = json!({"type": "Buffer", "buffer": {"bufferSize": 4, "maxReplicas": 20}});
    let found = decisions(&[fleet(3, 1), autoscaler("a", buffer)]);
    assert_eq!(
        found,
        [json!({
            "subject": {"kind": "FleetAutoscaler", "namespace": "default", "name": "a"},
            "target": {"kind": "Fleet", "namespace": "default", "name": "f"},
            "from": 3, "to": 5, "limited": false, "appliedPolicy": "Buffer",
            "reasons": [{"code": "BufferShort", "message": "2 of 4 wanted spare"}],
            "votes": [],
        })]
    );
}

#[test]
fn a_webhook_is_answered_for_by_a_review_in_the_files() {
    let webhook = json!({"type": "Webhook", "webhook": {"url": "http://a"}});
    let review = |request: Value, response: Value| json!({"kind": "FleetAutoscaleReview", "request": request, "response": response});
    let seven = json!({"uid": "1", "scale": true, "replicas": 7});
    for (reviews, to, error) in [
        (vec![], None, Some("NoReply")),
        (vec![review(json!(null), seven.clone())], Some(7), None),
        (vec![review(json!({"name": "g"}), seven.clone())], None, Some("NoReply")),
        (vec![review(json!({"name": "f", "namespace": "default"}), seven.clone())], Some(7), None),
        (vec![review(json!({"name": "f"}), json!({"scale": false}))], Some(3), None),
        (vec![review(json!({"name": "f"}), json!(null))], None, Some("ReplyFailed")),
        (
            vec![review(json!(null), json!({"scale": false})), review(json!({"name": "f"}), seven)],
            Some(7),
            None,
        ),
    ] {
        let mut objects = vec![fleet(3, 1), autoscaler("a", webhook.clone())];
        objects.extend(reviews.clone());
        let found = &decisions(&objects)[0];
        assert_eq!(found["to"].as_i64(), to, "{reviews:?}: {found}");
        assert_eq!(found["error"]["code"].as_str(), error, "{reviews:?}: {found}");
    }
}

#[test]
fn a_review_that_is_none_is_refused() {
    let review =
        json!({"kind": "FleetAutoscaleReview", "response": {"scale": true, "replicas": "7"}});
    let done = evaluate(&[review], &[]);
    assert_eq!(done.status.code(), Some(2));
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.contains("items[0].response.replicas: "), "{stderr}");
}

#[test]
fn an_autoscaler_that_cannot_be_read_is_refused_with_its_field() {
    let buffer = json!({"type": "Buffer", "buffer": {"bufferSize": 4, "maxReplicas": 20}});
    let annotation = "plimsoll.dev/scale-down-stabilization";
    let mut unreadable = autoscaler("a", buffer.clone());
    unreadable["metadata"]["annotations"] = json!({annotation: "a while"});
    let period = json!({"startCron": "0 8 * * *", "timezone": "Mars/Base"});
    let schedule = json!({"activePeriod": period, "policy": buffer});
    let mut stored = autoscaler("b", json!({"type": "Schedule", "schedule": schedule}));
    stored["metadata"]["uid"] = "u".into();
    for (object, field) in [
        (unreadable, "metadata.annotations[plimsoll.dev/scale-down-stabilization]"),
        (stored, "spec.policy.schedule.activePeriod.timezone"),
    ] {
        let done = evaluate(&[fleet(3, 1), object], &[]);
        assert_eq!(done.status.code(), Some(2));
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(
            stderr.contains(&format!("objects.json: document 1: items[1].{field}: ")),
            "{stderr}"
        );
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn an_autoscaler_without_any_fleet_is_only_validated() {
    let buffer = json!({"type": "Buffer", "buffer": {"bufferSize": 4, "maxReplicas": 20}});
    let done = evaluate(&[autoscaler("a", buffer)], &["-o", "json"]);
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(serde_json::from_slice::<Value>(&done.stdout).unwrap(), json!({"decisions": []}));
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert_eq!(
        stderr,
        "FleetAutoscaler default/a: only validated, since Fleet default/f is not in the files\n"
    );
}

#[test]
fn of_two_autoscalers_only_the_older_moves_the_fleet() {
    let buffer = json!({"type": "Buffer", "buffer": {"bufferSize": 4, "maxReplicas": 20}});
    let mut young = autoscaler("a", buffer.clone());
    young["metadata"]["creationTimestamp"] = "2026-02-02T00:00:00Z".into();
    let mut old = autoscaler("b", buffer);
    old["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z".into();
    let found = decisions(&[fleet(3, 1), young, old]);
    assert_eq!(found[0]["error"]["code"], "OwnedByAnother");
    assert_eq!(found[1]["to"], 5);
}

#[test]
fn an_allocation_keeps_unknown_fields_of_the_game_server() {
    let server = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": "s", "uid": "1", "annotations": {"x": "1"}},
        "spec": {"template": {"spec": {"containers": [{"name": "game"}], "ofTomorrow": true}}},
        "status": {"state": "Ready", "nodeName": "n", "lists": {"p": {"capacity": 2, "values": ["a"]}}},
    });
    let allocation = json!({
        "kind": "GameServerAllocation",
        "spec": {"metadata": {"labels": {"mode": "x"}}, "lists": {"p": {"addValues": ["b"]}, "q": {"capacity": 1}}},
    });
    let found = &decisions(&[server, allocation])[0];
    assert_eq!(found["state"], "Allocated");
    let after = &found["gameServer"];
    assert_eq!(after["metadata"]["annotations"]["x"], "1");
    assert_eq!(after["spec"]["template"]["spec"]["ofTomorrow"], true);
    assert_eq!(after["metadata"]["labels"], json!({"mode": "x"}));
    assert_eq!(
        after["metadata"]["annotations"]["agones.dev/last-allocated"],
        "2026-03-01T12:00:00Z"
    );
    assert_eq!(after["status"]["lists"], json!({"p": {"capacity": 2, "values": ["a", "b"]}}));
    assert_eq!(after["status"]["state"], "Allocated");
    assert_eq!(found["warnings"][0]["code"], "ListActionError");
}

#[test]
fn agones_documents_of_both_dialects_are_taken_as_written() {
    for file in ["fleetautoscaler-specification", "counts-and-lists-design"] {
        let path = format!("crates/api/tests/it/documents/{file}.yaml");
        let done = plimsoll().args(["evaluate", "-f", &path]).output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{stderr}");
    }
}

/// Feeds the program recorded cases with one thing changed to nonsense. It may decide or refuse, but never fall over.
#[test]
fn nonsense_is_decided_or_refused_but_never_panics() {
    let mut chance = 0x5eed_u64;
    let mut next = |below: usize| {
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize % below.max(1)
    };
    let mut cases = Vec::new();
    for file in ["fleetautoscaler", "scaledown", "allocation", "validation"] {
        let text = fs::read_to_string(root().join(format!("vectors/agones-{file}.jsonl"))).unwrap();
        let all = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        cases.extend(all.filter(|c| c.get("made").is_none()));
    }
    for _ in 0..150 {
        let mut objects = cases[next(cases.len())]["objects"].as_array().unwrap().clone();
        for _ in 0..=next(2) {
            let index = next(objects.len());
            spoil(&mut objects[index], &mut next);
        }
        let done = evaluate(&objects, &["-o", "json"]);
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(0 | 2)), "{stderr}: {}", json!(objects));
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// Changes or removes one value somewhere in the object.
fn spoil(value: &mut Value, next: &mut impl FnMut(usize) -> usize) {
    let count = match value {
        Value::Object(map) => map.len(),
        Value::Array(items) => items.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    if count > 0 && next(6) > 0 {
        let chosen = next(count);
        match value {
            Value::Object(map) if next(8) == 0 => {
                let name = map.keys().nth(chosen).unwrap().clone();
                map.remove(&name);
            }
            Value::Object(map) => spoil(map.values_mut().nth(chosen).unwrap(), next),
            Value::Array(items) => spoil(&mut items[chosen], next),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        return;
    }
    let nonsense = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(2_147_483_647),
        json!(""),
        json!("100%"),
        json!("\u{0}é"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": null}),
    ];
    *value = nonsense[next(nonsense.len())].clone();
}
