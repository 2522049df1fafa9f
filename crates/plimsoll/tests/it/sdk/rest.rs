//! Every call over REST, by the real curl.

use std::time::Duration;

use serde_json::{Value, json};

use super::sdk_servers::{self, NEVER, SdkServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_makes_every_call_in_process() {
    every_call(&sdk_servers::in_process().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_makes_every_call_to_the_sidecar() {
    every_call(&sdk_servers::sidecar().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_makes_every_call_to_the_local_stand_in() {
    every_call(&sdk_servers::local(&[])).await;
}

/// Sends a request; an empty body is none. Gives the HTTP status and the body.
pub(super) async fn curl(server: &SdkServer, verb: &str, path: &str, body: &str) -> (u16, String) {
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", "-X", verb, &server.url(path)]);
    if !body.is_empty() {
        curl.args(["-d", body]);
    }
    let done = curl.kill_on_drop(true).output().await.unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

async fn ok(server: &SdkServer, verb: &str, path: &str, body: &str) -> Value {
    let (status, text) = curl(server, verb, path, body).await;
    assert_eq!(status, 200, "{verb} {path}: {text}");
    serde_json::from_str(&text).unwrap()
}

async fn every_call(server: &SdkServer) {
    let nothing = json!({});
    assert_eq!(ok(server, "POST", "/health", "{}").await, nothing);
    assert_eq!(ok(server, "POST", "/ready", "{}").await, nothing);
    until_state(server, "Ready").await;
    assert_eq!(ok(server, "POST", "/allocate", "").await, nothing);
    until_state(server, "Allocated").await;
    assert_eq!(ok(server, "POST", "/reserve", r#"{"seconds":"1"}"#).await, nothing);
    until_state(server, "Reserved").await;
    until_state(server, "Ready").await;
    ok(server, "PUT", "/metadata/label", r#"{"key":"map","value":"desert"}"#).await;
    ok(server, "PUT", "/metadata/annotation", r#"{"key":"note","value":"any"}"#).await;
    let meta = &ok(server, "GET", "/gameserver", "").await["object_meta"];
    assert_eq!(meta["labels"]["agones.dev/sdk-map"], "desert");
    assert_eq!(meta["annotations"]["agones.dev/sdk-note"], "any");
    counters(server).await;
    lists(server).await;
    players(server).await;
    refusals(server).await;
    watch(server).await;
    ok(server, "POST", "/shutdown", "{}").await;
    until_state(server, "Shutdown").await;
}

async fn until_state(server: &SdkServer, state: &str) {
    let reached = async {
        while ok(server, "GET", "/gameserver", "").await["status"]["state"] != state {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = tokio::time::timeout(NEVER, reached).await;
    reached.unwrap_or_else(|_| panic!("never {state}"));
}

async fn counters(server: &SdkServer) {
    let path = "/v1beta1/counters/rooms";
    let rooms = |count: &str, capacity: &str| json!({"name": "rooms", "count": count, "capacity": capacity});
    assert_eq!(ok(server, "GET", path, "").await, rooms("1", "10"));
    let both = r#"{"countDiff":"-1","capacity":"42"}"#;
    assert_eq!(ok(server, "PATCH", path, both).await, rooms("0", "42"));
    assert_eq!(ok(server, "PATCH", path, r#"{"count":40}"#).await, rooms("40", "42"));
}

async fn lists(server: &SdkServer) {
    let path = "/v1beta1/lists/players";
    let players = |capacity: &str, values: &[&str]| json!({"name": "players", "capacity": capacity, "values": values});
    assert_eq!(ok(server, "GET", path, "").await, players("100", &["test0", "test1", "test2"]));
    let both = r#"{"values":["test123","test456"],"capacity":"10"}"#;
    assert_eq!(ok(server, "PATCH", path, both).await, players("10", &["test123", "test456"]));
    let added = ok(server, "POST", &format!("{path}:addValue"), r#"{"value":"test789"}"#).await;
    assert_eq!(added, players("10", &["test123", "test456", "test789"]));
    let removed =
        ok(server, "POST", &format!("{path}:removeValue"), r#"{"value":"test456"}"#).await;
    assert_eq!(removed, players("10", &["test123", "test789"]));
    let masked = r#"{"capacity":"1","values":["ignored"]}"#;
    let masked = ok(server, "PATCH", &format!("{path}?update_mask=capacity"), masked).await;
    assert_eq!(masked, players("1", &["test123"]));
}

async fn players(server: &SdkServer) {
    let path = |end: &str| format!("/alpha/player/{end}");
    let id = r#"{"playerID":"1234"}"#;
    assert_eq!(ok(server, "PUT", &path("capacity"), r#"{"count":"10"}"#).await, json!({}));
    assert_eq!(ok(server, "GET", &path("capacity"), "").await, json!({"count": "10"}));
    assert_eq!(ok(server, "POST", &path("connect"), id).await, json!({"bool": true}));
    assert_eq!(ok(server, "GET", &path("connected/1234"), "").await, json!({"bool": true}));
    assert_eq!(ok(server, "GET", &path("connected"), "").await, json!({"list": ["1234"]}));
    assert_eq!(ok(server, "POST", &path("disconnect"), id).await, json!({"bool": true}));
    assert_eq!(ok(server, "GET", &path("count"), "").await, json!({"count": "0"}));
}

async fn refusals(server: &SdkServer) {
    for (verb, path, body, status, code) in [
        ("GET", "/nothing", "", 404, 5),
        ("DELETE", "/gameserver", "", 501, 12),
        ("POST", "/v1beta1/lists/players", "{}", 501, 12),
        ("GET", "/v1beta1/counters/none", "", 404, 5),
        ("PATCH", "/v1beta1/counters/rooms", "{}", 400, 3),
        ("PATCH", "/v1beta1/counters/rooms", r#"{"countDiff":"100"}"#, 400, 11),
        ("PATCH", "/v1beta1/counters/rooms", "not json", 400, 3),
        ("PATCH", "/v1beta1/lists/players", "{}", 400, 3),
        ("PATCH", "/v1beta1/lists/players", r#"{"vals":[]}"#, 400, 3),
        ("PATCH", "/v1beta1/lists/players", r#"{"capacity":1001}"#, 400, 11),
        ("POST", "/v1beta1/lists/players:removeValue", r#"{"value":"x"}"#, 404, 5),
        ("PUT", "/metadata/label", r#"{"key":"a b","value":"c"}"#, 400, 3),
        ("POST", "/reserve", r#"{"seconds":"soon"}"#, 400, 3),
    ] {
        let (actual, text) = curl(server, verb, path, body).await;
        assert_eq!(actual, status, "{verb} {path} {body}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error["code"], code, "{text}");
        assert_eq!(error["details"], json!([]));
        assert!(error["message"].is_string());
    }
    assert_eq!(curl(server, "POST", "/health", "").await, (400, String::new()));
}

/// Reads lines of the watch until one says what was just changed.
async fn watch(server: &SdkServer) {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-sSN", &server.url("/watch/gameserver")]).stdout(std::process::Stdio::piped());
    let mut child = curl.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(NEVER, lines.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    };
    assert_eq!(next().await["status"]["state"], "Ready");
    ok(server, "PATCH", "/v1beta1/counters/rooms", r#"{"count":"7"}"#).await;
    while next().await["status"]["counters"]["rooms"]["count"] != "7" {}
}
