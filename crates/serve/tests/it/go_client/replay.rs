//! Sends the recorded bodies in their order, and compares the answers with those of Agones.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::decoding;

const CASES: &str = include_str!("../../../../../vectors/agones-go-client.jsonl");

/// How Kubernetes' messages begin, by the type of the mistake.
const WORDS: [&str; 6] = [
    "Required value",
    "Invalid value",
    "Unsupported value",
    "Forbidden",
    "Duplicate value",
    "Too long",
];

/// The objects that were made so far, on a server that has namespaces for them.
pub(super) struct Replay {
    pub(super) client: Client,
    /// The namespaces in the cases, and those that stand for them.
    namespaces: BTreeMap<String, String>,
    /// The paths of the objects, by kind, namespace and the name (or the beginning of it) in the cases.
    made: BTreeMap<String, String>,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) content_type: String,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn assert_decodable(&self) {
        assert_eq!(self.content_type, "application/json", "{self:?}");
        let faults = decoding::faults(self.code, &self.body);
        assert!(faults.is_empty(), "{}: {self:?}", faults.join("; "));
    }
}

fn cases() -> Vec<Value> {
    let lines = CASES.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|case| case.get("made").is_none()).collect()
}

impl Replay {
    /// Makes the namespaces of the cases, with names that begin with `prefix`.
    pub(super) async fn new(client: Client, prefix: &str) -> Self {
        let mut namespaces = BTreeMap::new();
        for case in cases() {
            let name = case["objects"][0]["metadata"]["namespace"].as_str().unwrap().to_owned();
            let own = format!("{prefix}-{name}");
            namespaces.insert(name, own);
        }
        let api: Api<Namespace> = Api::all(client.clone());
        for own in namespaces.values() {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(own.clone());
            api.create(&PostParams::default(), &namespace).await.unwrap();
        }
        Self { client, namespaces, made: BTreeMap::new() }
    }

    pub(super) fn namespaces(&self) -> Vec<String> {
        self.namespaces.values().cloned().collect()
    }

    /// Sends the cases that `is_wanted` picks, and lists what differs.
    pub(super) async fn run(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for case in cases().into_iter().filter(is_wanted) {
            let answer = self.answer(&case).await;
            let found = judge(&case, &answer);
            if !found.is_empty() {
                wrong.push(format!("{}: {}", case["id"], found.join("; ")));
            }
        }
        wrong
    }

    /// Sends a case. What is changed is changed as a client does it: with the metadata of the object as it is now.
    async fn answer(&mut self, case: &Value) -> Answer {
        let mut object = case["objects"][0].clone();
        let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
        let kind =
            api::find(object["apiVersion"].as_str(), object["kind"].as_str().unwrap()).unwrap();
        let own = &self.namespaces[&namespace];
        let collection =
            format!("/apis/{}/{}/namespaces/{own}/{}", kind.group, kind.version, kind.plural);
        object["metadata"]["namespace"] = own.as_str().into();
        // The owner is not there, and the object would be collected with it.
        object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        let meta = object["metadata"].clone();
        let text = |field: &str| meta[field].as_str().filter(|text| !text.is_empty());
        let known = text("generateName").or(text("name")).unwrap_or_default();
        let key = format!("{} {namespace} {known}", kind.kind);
        if case["verb"] == "create" {
            // Other clusters cannot be asked here.
            let is_remote = object["spec"]["multiClusterSetting"]["enabled"] == true;
            let options = if is_remote { "?dryRun=All" } else { "" };
            let answer = self.send("POST", &format!("{collection}{options}"), Some(&object)).await;
            if let Some(name) = answer.body["metadata"]["name"].as_str() {
                self.made.insert(key, format!("{collection}/{name}"));
            }
            return answer;
        }
        let path = self.made.get(&key).unwrap_or_else(|| panic!("{key} was not made before"));
        let mut metadata = self.send("GET", path, None).await.body["metadata"].take();
        for field in ["labels", "annotations"] {
            for (name, value) in meta[field].as_object().into_iter().flatten() {
                metadata[field][name] = value.clone();
            }
        }
        object["metadata"] = metadata;
        let part = if case["verb"] == "updateStatus" { "/status" } else { "" };
        self.send("PUT", &format!("{path}{part}"), Some(&object)).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.send_as(method, path, body, "application/json").await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send_as("PATCH", path, Some(body), "application/merge-patch+json").await
    }

    async fn send_as(&self, method: &str, path: &str, body: Option<&Value>, media: &str) -> Answer {
        let request =
            Request::builder().method(method).uri(path).header("accept", "application/json");
        let request = request.header("content-type", media);
        let body = body.map(Value::to_string).unwrap_or_default();
        let body = kube::client::Body::from(body.into_bytes());
        let answer = self.client.send(request.body(body).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let content_type =
            answer.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
        let content_type = content_type.unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().to_owned();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        Answer { code, content_type, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// Watches until the server ends it, and returns the events.
    pub(super) async fn watch(&self, path: &str) -> Vec<Value> {
        let request = Request::builder().uri(path).body(kube::client::Body::empty()).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The API server takes up new webhooks, and new kinds, after a moment.
    pub(super) async fn wait_for_webhooks(&self) -> Result<(), String> {
        let mut last = Value::Null;
        for attempt in 0..600 {
            let mut all = true;
            for own in self.namespaces.values() {
                let path = format!("/apis/agones.dev/v1/namespaces/{own}/fleets?dryRun=All");
                let fleet =
                    fleet(json!({"name": format!("try-{attempt}")}), json!({"scheduling": ""}));
                let made = self.send("POST", &path, Some(&fleet)).await;
                all &= made.body["metadata"]["annotations"]["agones.dev/sdk-version"].is_string();
                last = made.body;
            }
            if all {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("the webhooks are not asked: {last}"))
    }

    /// Returns the message by which a fleet is refused that would be given a name.
    pub(super) async fn refuse_generated_name(&self) -> String {
        let own = self.namespaces.values().next().unwrap();
        let path = format!("/apis/agones.dev/v1/namespaces/{own}/fleets");
        let wrong = json!({"strategy": {"rollingUpdate": {"maxSurge": 0}}});
        let refused =
            self.send("POST", &path, Some(&fleet(json!({"generateName": "g-"}), wrong))).await;
        refused.body["message"].as_str().unwrap_or_default().to_owned()
    }
}

fn fleet(metadata: Value, more: Value) -> Value {
    let pod = json!({"spec": {"containers": [{"name": "game"}]}});
    let mut spec = json!({"template": {"spec": {"template": pod}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": metadata, "spec": spec})
}

/// Lists what is wrong with an answer.
fn judge(case: &Value, answer: &Answer) -> Vec<String> {
    let mut wrong = decoding::faults(answer.code, &answer.body);
    if let Some(path) = case["expect"]["error"].as_str() {
        if answer.code != 422 {
            wrong.push(format!("answered {}, want it refused because of {path}", answer.code));
            return wrong;
        }
        let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let found: Vec<_> = causes
            .iter()
            .map(|cause| {
                let message = cause["message"].as_str().unwrap_or_default();
                let words = message.split(':').next().unwrap_or_default();
                (cause["field"].as_str().unwrap_or_default().to_owned(), words.to_owned())
            })
            .collect();
        if !found.iter().any(|(field, _)| field.contains(path)) {
            wrong.push(format!("refused without {path}: {found:?}"));
        }
        let wanted = mistakes(case["message"].as_str().unwrap());
        if sorted(&found) != sorted(&wanted) {
            wrong.push(format!("refused because of {found:?}, want {wanted:?}"));
        }
    } else if !matches!(answer.code, 200 | 201) {
        wrong.push(format!("refused: {}", answer.body["message"]));
    } else if case["defaulted"].is_object() {
        let (mut got, want) =
            (without_defaults(&answer.body["spec"]), without_defaults(&case["defaulted"]));
        if answer.body["kind"] == "GameServerAllocation" && want["selectors"].is_null() {
            // They are made of what is required and preferred, after what was recorded.
            got.as_object_mut().unwrap().remove("selectors");
        }
        if got != want {
            wrong.push(format!("filled in as {got}, want {want}"));
        }
    }
    wrong
}

fn sorted(mistakes: &[(String, String)]) -> Vec<&(String, String)> {
    let mut all: Vec<_> = mistakes.iter().collect();
    all.sort();
    all
}

/// Reads the fields and the types of mistakes out of a message. A null that is refused was put there by upstream's own webhook: to
/// us the field is missing.
fn mistakes(message: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for words in WORDS {
        for (at, _) in message.match_indices(&format!(": {words}")) {
            let field = message[..at].rsplit([' ', '[', ',']).next().unwrap_or_default();
            // A path may have brackets of its own.
            let start = message[..at].rfind(" ").map_or(0, |space| space + 1);
            let whole = message[start..at].trim_start_matches('[');
            let field = if whole.contains("]") { whole } else { field };
            let rest = &message[at + 2 + words.len()..];
            let words = if rest.starts_with(": \"null\"") { "Required value" } else { words };
            found.push((field.to_owned(), words.to_owned()));
        }
    }
    found
}

/// Returns a value without what Go clients omit: zeros and empty values.
fn without_defaults(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(name, _)| *name != "immutableReplicas")
            .map(|(name, value)| (name.clone(), without_defaults(value)))
            .filter(|(_, value)| !is_nothing(value))
            .collect(),
        Value::Array(items) => items.iter().map(without_defaults).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
