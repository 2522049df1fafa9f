//! Sends a step to one of the two servers, and reads the whole answer.

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::script::Step;
use super::{Memory, at};

/// One server, and what was saved from its answers.
pub(super) struct Side {
    client: Client,
    memory: Memory,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) code: u16,
    /// The body; for a watch, the list of its events.
    pub(super) body: Value,
    /// The warnings of the server.
    pub(super) warnings: Vec<String>,
    /// The names that stand for something on this side only, so that they can be put back.
    pub(super) memory: Memory,
}

/// The names in braces that stand for paths.
const PATHS: [(&str, &str); 4] = [
    ("{core}", "/api/v1/namespaces/{ns}"),
    ("{apps}", "/apis/apps/v1/namespaces/{ns}"),
    ("{batch}", "/apis/batch/v1/namespaces/{ns}"),
    ("{policy}", "/apis/policy/v1/namespaces/{ns}"),
];

impl Side {
    pub(super) fn new(client: Client, side: &str, index: usize) -> Self {
        let unique = format!("diff-{side}{index}-{:x}", std::process::id());
        Self { client, memory: Memory::from([("ns".to_owned(), unique)]) }
    }

    pub(super) async fn make_namespace(&mut self) -> Result<(), String> {
        let body = json!({"metadata": {"name": self.memory["ns"]}}).to_string();
        let (code, _, body) =
            self.exchange("POST", "/api/v1/namespaces", None, None, Some(body)).await?;
        if code == 201 { Ok(()) } else { Err(body) }
    }

    pub(super) async fn drop_namespace(&mut self) {
        let path = format!("/api/v1/namespaces/{}", self.memory["ns"]);
        let _ = self.exchange("DELETE", &path, None, None, None).await;
    }

    pub(super) async fn forget(&mut self, path: &str) {
        let path = self.fill(path);
        let _ = self.exchange("DELETE", &path, None, None, None).await;
    }

    /// Sends a step.
    pub(super) async fn send(&mut self, step: &Step) -> Result<Answer, String> {
        let (method, default_type) = match step.verb.as_str() {
            "PATCH-JSON" => ("PATCH", "application/json-patch+json"),
            "PATCH-MERGE" => ("PATCH", "application/merge-patch+json"),
            "PATCH-STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "WATCH" => ("GET", "application/json"),
            other => (other, "application/json"),
        };
        let mut path = self.fill(&step.path);
        if step.verb == "WATCH" {
            let joint = if path.contains('?') { '&' } else { '?' };
            let limit = if path.contains("timeoutSeconds") { "" } else { "&timeoutSeconds=1" };
            path = format!("{path}{joint}watch=true{limit}");
        }
        let body = step.body.as_deref().map(|body| self.fill(body));
        let content_type = step.content_type.as_deref().unwrap_or(default_type);
        let mut tries = if step.eventually && !step.reads() { 50 } else { 1 };
        let (code, warnings, text) = loop {
            let answer = self
                .exchange(method, &path, Some(content_type), step.accept.as_deref(), body.clone())
                .await?;
            tries -= 1;
            if answer.0 != 404 || tries == 0 {
                break answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        };
        let body = if step.verb == "WATCH" && code == 200 { events(&text) } else { read(&text) };
        Ok(Answer { code, body, warnings, memory: self.memory.clone() })
    }

    /// Keeps what the step wants kept.
    pub(super) fn remember(&mut self, step: &Step, answer: &mut Answer) {
        for (name, path) in &step.save {
            let value = at(&answer.body, path).cloned().unwrap_or_default();
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.memory.insert(name.clone(), text);
        }
        answer.memory.clone_from(&self.memory);
    }

    fn fill(&self, text: &str) -> String {
        let text =
            PATHS.iter().fold(text.to_owned(), |text, (name, path)| text.replace(name, path));
        self.memory
            .iter()
            .fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        accept: Option<&str>,
        body: Option<String>,
    ) -> Result<(u16, Vec<String>, String), String> {
        let request = Request::builder()
            .method(method)
            .uri(path.replace(' ', "%20").replace('<', "%3C").replace('>', "%3E"))
            .header("content-type", content_type.unwrap_or("application/json"))
            .header("accept", accept.unwrap_or("application/json"))
            .header("user-agent", "differential/1.0")
            .body(Body::from(body.unwrap_or_default().into_bytes()))
            .map_err(|err| err.to_string())?;
        let answer = self.client.send(request).await.map_err(|err| err.to_string())?;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").iter();
        let warnings =
            warnings.map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned()).collect();
        let bytes = answer.into_body().collect().await.map_err(|err| err.to_string())?.to_bytes();
        Ok((code, warnings, String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.trim().to_owned()))
}

/// Reads the events of a watch. Bookmarks are left out: their times are not specified, except for the one that ends
/// the initial list.
fn events(text: &str) -> Value {
    let is_kept = |event: &Value| {
        event["type"] != "BOOKMARK"
            || event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_some()
    };
    text.lines().map(read).filter(is_kept).collect()
}
