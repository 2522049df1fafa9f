//! The bodies that Go's decoders accept for the types of Agones' clients.

use serde_json::Value;

/// What a decoder wants at a place; null and nothing are fine everywhere.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Text,
    Flag,
    Int32,
    Int64,
    IntOrText,
    Time,
    Bytes,
}

use Wanted::{Bytes, Flag, Int32, Int64, IntOrText, Text, Time};

/// A place and what is wanted there. `[]` stands for every item of a list, `*` for every value of a map.
type Rule = (&'static str, Wanted);

const METADATA: [Rule; 15] = [
    ("name", Text),
    ("generateName", Text),
    ("namespace", Text),
    ("uid", Text),
    ("resourceVersion", Text),
    ("generation", Int64),
    ("creationTimestamp", Time),
    ("deletionTimestamp", Time),
    ("deletionGracePeriodSeconds", Int64),
    ("labels.*", Text),
    ("annotations.*", Text),
    ("finalizers.[]", Text),
    ("ownerReferences.[].uid", Text),
    ("ownerReferences.[].controller", Flag),
    ("managedFields.[].time", Time),
];

const COUNTS: [Rule; 6] = [
    ("counters.*.count", Int64),
    ("counters.*.capacity", Int64),
    ("counters.*.allocatedCount", Int64),
    ("lists.*.capacity", Int64),
    ("lists.*.count", Int64),
    ("lists.*.values.[]", Text),
];

const SERVER_SPEC: [Rule; 19] = [
    ("container", Text),
    ("ports.[].name", Text),
    ("ports.[].range", Text),
    ("ports.[].portPolicy", Text),
    ("ports.[].container", Text),
    ("ports.[].containerPort", Int32),
    ("ports.[].hostPort", Int32),
    ("ports.[].protocol", Text),
    ("health.disabled", Flag),
    ("health.periodSeconds", Int32),
    ("health.failureThreshold", Int32),
    ("health.initialDelaySeconds", Int32),
    ("scheduling", Text),
    ("sdkServer.logLevel", Text),
    ("sdkServer.grpcPort", Int32),
    ("sdkServer.httpPort", Int32),
    ("players.initialCapacity", Int64),
    ("eviction.safe", Text),
    ("template.spec.containers.[].name", Text),
];

/// What a game server's status and that of an allocation have in common.
const SERVER_STATUS: [Rule; 12] = [
    ("state", Text),
    ("gameServerName", Text),
    ("ports.[].name", Text),
    ("ports.[].port", Int32),
    ("address", Text),
    ("addresses.[].type", Text),
    ("addresses.[].address", Text),
    ("nodeName", Text),
    ("source", Text),
    ("reservedUntil", Time),
    ("metadata.labels.*", Text),
    ("metadata.annotations.*", Text),
];

const GROUP_SPEC: [Rule; 9] = [
    ("replicas", Int32),
    ("scheduling", Text),
    ("strategy.type", Text),
    ("strategy.rollingUpdate.maxSurge", IntOrText),
    ("strategy.rollingUpdate.maxUnavailable", IntOrText),
    ("priorities.[].type", Text),
    ("priorities.[].order", Text),
    ("allocationOverflow.labels.*", Text),
    ("allocationOverflow.annotations.*", Text),
];

const GROUP_STATUS: [Rule; 6] = [
    ("replicas", Int32),
    ("readyReplicas", Int32),
    ("reservedReplicas", Int32),
    ("allocatedReplicas", Int32),
    ("shutdownReplicas", Int32),
    ("allocations", Int64),
];

const POLICY: [Rule; 21] = [
    ("type", Text),
    ("id", Text),
    ("buffer.maxReplicas", Int32),
    ("buffer.minReplicas", Int32),
    ("buffer.bufferSize", IntOrText),
    ("counter.key", Text),
    ("counter.maxCapacity", Int64),
    ("counter.minCapacity", Int64),
    ("counter.bufferSize", IntOrText),
    ("list.key", Text),
    ("list.maxCapacity", Int64),
    ("list.minCapacity", Int64),
    ("list.bufferSize", IntOrText),
    ("webhook.url", Text),
    ("webhook.service.port", Int32),
    ("webhook.caBundle", Bytes),
    ("schedule.between.start", Time),
    ("schedule.between.end", Time),
    ("schedule.activePeriod.duration", Text),
    ("wasm.from.url.caBundle", Bytes),
    ("wasm.config.*", Text),
];

const AUTOSCALER: [Rule; 9] = [
    ("spec.fleetName", Text),
    ("spec.sync.type", Text),
    ("spec.sync.fixedInterval.seconds", Int32),
    ("status.currentReplicas", Int32),
    ("status.desiredReplicas", Int32),
    ("status.lastScaleTime", Time),
    ("status.ableToScale", Flag),
    ("status.scalingLimited", Flag),
    ("status.lastAppliedPolicy", Text),
];

const ALLOCATION: [Rule; 10] = [
    ("scheduling", Text),
    ("multiClusterSetting.enabled", Flag),
    ("priorities.[].order", Text),
    ("counters.*.amount", Int64),
    ("counters.*.capacity", Int64),
    ("lists.*.addValues.[]", Text),
    ("lists.*.capacity", Int64),
    ("selectors.[].matchLabels.*", Text),
    ("selectors.[].counters.*.minCount", Int64),
    ("selectors.[].lists.*.containsValue", Text),
];

const CLUSTER_POLICY: [Rule; 5] = [
    ("spec.priority", Int32),
    ("spec.weight", Int64),
    ("spec.connectionInfo.namespace", Text),
    ("spec.connectionInfo.allocationEndpoints.[]", Text),
    ("spec.connectionInfo.serverCa", Bytes),
];

/// Lists what keeps a Go client from reading a body.
pub(super) fn faults(code: u16, body: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if !body.is_object() {
        return vec!["the body is not an object".to_owned()];
    }
    let kind = body["kind"].as_str().unwrap_or_default();
    if code >= 400 {
        if kind != "Status" || body["apiVersion"] != "v1" || body["status"] != "Failure" {
            out.push("an error is not a v1 Status".to_owned());
        }
        for field in ["reason", "message"] {
            if body[field].as_str().is_none_or(str::is_empty) {
                out.push(format!("an error has no {field}"));
            }
        }
        check(body, "code", Int32, &mut out);
        return out;
    }
    if let Some(item_kind) = kind.strip_suffix("List") {
        check(&body["metadata"], "resourceVersion", Text, &mut out);
        check(&body["metadata"], "remainingItemCount", Int64, &mut out);
        let items = body["items"].as_array();
        items.into_iter().flatten().for_each(|item| object(item_kind, item, &mut out));
        if items.is_none() && !body["items"].is_null() {
            out.push("the items are not a list".to_owned());
        }
        return out;
    }
    object(kind, body, &mut out);
    out
}

/// Refuses an event of a watch that Go's decoder takes for an error, or for none.
pub(super) fn assert_event(event: &Value) {
    let types = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"];
    assert!(types.iter().any(|known| event["type"] == *known), "{event}");
    let object = &event["object"];
    assert!(object["kind"].is_string() && object["apiVersion"].is_string(), "{event}");
    let faults = faults(200, object);
    assert!(faults.is_empty(), "{}: {event}", faults.join("; "));
}

fn object(kind: &str, body: &Value, out: &mut Vec<String>) {
    all(&body["metadata"], &METADATA, out);
    let (spec, status) = (&body["spec"], &body["status"]);
    match kind {
        "GameServer" => {
            all(spec, &SERVER_SPEC, out);
            all(spec, &COUNTS, out);
            all(status, &SERVER_STATUS, out);
            all(status, &COUNTS, out);
        }
        "Fleet" | "GameServerSet" => {
            all(spec, &GROUP_SPEC, out);
            all(&spec["template"]["metadata"], &METADATA, out);
            all(&spec["template"]["spec"], &SERVER_SPEC, out);
            all(&spec["template"]["spec"], &COUNTS, out);
            all(status, &GROUP_STATUS, out);
            all(status, &COUNTS, out);
        }
        "FleetAutoscaler" => {
            all(body, &AUTOSCALER, out);
            let policy = &spec["policy"];
            all(policy, &POLICY, out);
            all(&policy["schedule"]["policy"], &POLICY, out);
            if !policy["chain"].is_array() && !policy["chain"].is_null() {
                out.push("spec.policy.chain is not a list".to_owned());
            }
            policy["chain"].as_array().into_iter().flatten().for_each(|p| all(p, &POLICY, out));
        }
        "GameServerAllocation" => {
            all(spec, &ALLOCATION, out);
            all(status, &SERVER_STATUS, out);
            all(status, &COUNTS, out);
        }
        "GameServerAllocationPolicy" => all(body, &CLUSTER_POLICY, out),
        "Status" => {}
        other => out.push(format!("unknown kind `{other}`")),
    }
}

fn all(value: &Value, rules: &[Rule], out: &mut Vec<String>) {
    rules.iter().for_each(|(path, wanted)| check(value, path, *wanted, out));
}

fn check(value: &Value, path: &str, wanted: Wanted, out: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let go_on = |value: &Value, out: &mut Vec<String>| {
        if rest.is_empty() && !fits(value, wanted) {
            out.push(format!("{path}: {value} is no {wanted:?}"));
        } else if !rest.is_empty() {
            check(value, rest, wanted, out);
        }
    };
    match (step, value) {
        ("[]", Value::Array(items)) => items.iter().for_each(|item| go_on(item, out)),
        ("*", Value::Object(map)) => map.values().for_each(|value| go_on(value, out)),
        (name, Value::Object(map)) if name != "[]" => {
            if let Some(value) = map.get(name) {
                go_on(value, out);
            }
        }
        _ => out.push(format!("{path}: cannot be found in {value}")),
    }
}

fn fits(value: &Value, wanted: Wanted) -> bool {
    let is_int32 = || value.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    if value.is_null() {
        return true;
    }
    match wanted {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Int32 => is_int32(),
        Int64 => value.is_i64(),
        IntOrText => value.is_string() || is_int32(),
        Time => value.as_str().is_some_and(is_time),
        Bytes => {
            use base64::Engine as _;
            let decode = |text| base64::engine::general_purpose::STANDARD.decode(text);
            value.as_str().is_some_and(|text| decode(text).is_ok())
        }
    }
}

/// Go takes RFC 3339 alone: a `T` between day and time.
fn is_time(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && text.parse::<jiff::Timestamp>().is_ok()
}

#[test]
fn the_rules_find_what_go_cannot_decode() {
    let body = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (text, is_fine) in [
        (r#"{"kind": "Fleet", "spec": {"replicas": 2}}"#, true),
        (r#"{"kind": "Fleet", "spec": {"replicas": 2.0}}"#, false),
        (r#"{"kind": "Fleet", "spec": {"replicas": "2"}}"#, false),
        (r#"{"kind": "Fleet", "spec": {"replicas": 2147483648}}"#, false),
        (r#"{"kind": "Fleet", "spec": {"strategy": {"rollingUpdate": {"maxSurge": "5%"}}}}"#, true),
        (r#"{"kind": "GameServer", "status": {"reservedUntil": null, "ports": null}}"#, true),
        (r#"{"kind": "GameServer", "status": {"reservedUntil": ""}}"#, false),
        (r#"{"kind": "GameServer", "status": {"reservedUntil": "2026-01-01 00:00:00Z"}}"#, false),
        (
            r#"{"kind": "GameServer", "status": {"reservedUntil": "2026-01-01T00:00:00.5+01:00"}}"#,
            true,
        ),
        (r#"{"kind": "GameServer", "status": {"addresses": ["10.0.0.1"]}}"#, false),
        (r#"{"kind": "GameServer", "status": {"ports": {"game": 7000}}}"#, false),
        (r#"{"kind": "GameServer", "status": {"counters": []}}"#, false),
        (r#"{"kind": "FleetAutoscaler", "spec": {"policy": {"chain": {}}}}"#, false),
        (r#"{"kind": "FleetList", "items": [{"metadata": {"resourceVersion": 7}}]}"#, false),
    ] {
        assert_eq!(faults(200, &body(text)).is_empty(), is_fine, "{text}");
    }
    let error = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "m"}"#;
    assert_eq!(faults(404, &body(error)), ["an error has no reason"]);
}
