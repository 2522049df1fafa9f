//! How does a choice become true?
//!
//! By one write that names the version it was decided on: labels, annotations, state, counters and lists together, as a
//! merge patch or merged into the server's whole text. A write without an answer is sent again as it was: the API takes it, or
//! says that the version has moved on, and then the moment in `agones.dev/last-allocated` tells whether by us.

use std::time::Duration;

use api::agones;
use decide::allocation::{self, LAST_ALLOCATED, Warning, apply};
use decide::gameserver::{GameServer, Texts};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams, Request, ValidationDirective};
use serde_json::{Map, Value, json};

use super::server::Server;

/// How long to wait before a write without an answer is sent again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What came of sending.
pub(super) enum Sent {
    /// It is written, and the server is now like this.
    Written(Server),
    /// Someone else's write came first; what the server is like now, if that had to be asked.
    Conflict(Option<Server>),
    /// There is no such server any more.
    Gone,
    /// The API refused, or did not answer often enough.
    Failed(kube::Error),
}

/// A write to one server, for one request or several.
pub(super) struct Write {
    body: Body,
    /// What tells our write from another's.
    at: String,
    /// Actions that did not apply.
    pub(super) warnings: Vec<Warning>,
}

/// What is sent.
#[derive(Debug, PartialEq)]
enum Body {
    /// What changes.
    Patch(Value),
    /// The whole server as it is then, where its text is known.
    Whole(Value),
}

impl Write {
    /// Works out what requests do to a server, one after the other.
    pub(super) fn new<'a>(
        base: &Server,
        requests: impl Iterator<Item = &'a allocation::Request> + Clone,
        now: Timestamp,
    ) -> Self {
        // Without its metadata, so that the labels and annotations it has afterwards are those that change.
        let mut after = agones::server_view(&ObjectMeta::default(), &base.status);
        let mut warnings = Vec::new();
        requests.clone().for_each(|request| warnings.extend(apply(request, &mut after, now)));
        let at = after.annotations.get(LAST_ALLOCATED).map(ToString::to_string);
        let patch = patch(base, &after, requests);
        let body = match base.text.as_deref().map(serde_json::from_str::<Value>) {
            Some(Ok(mut whole)) => {
                merge(&mut whole, patch);
                // Who owns which field is for the API to say.
                if let Some(metadata) = whole["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                Body::Whole(whole)
            }
            Some(Err(_)) | None => Body::Patch(patch),
        };
        Self { body, at: at.unwrap_or_default(), warnings }
    }

    /// Sends the write until there is an answer.
    pub(super) async fn send(&self, api: &Api<Server>, base: &Server) -> Sent {
        let mut pauses = PAUSES.iter();
        let mut in_doubt = false;
        loop {
            let failed = match self.send_once(api, base).await {
                Ok(server) => return Sent::Written(server),
                Err(err) if is(&err, 409) && !in_doubt => return Sent::Conflict(None),
                Err(err) if is(&err, 409) => match self.find_out(api, base).await {
                    Ok(sent) => return sent,
                    Err(err) => err,
                },
                Err(err) if is(&err, 404) => return Sent::Gone,
                Err(err) => err,
            };
            let Some(pause) = pauses.next().filter(|_| may_pass(&failed)) else {
                return Sent::Failed(failed);
            };
            tracing::debug!(error = %cluster::explain(&failed), "sending a write again");
            in_doubt = true;
            tokio::time::sleep(*pause).await;
        }
    }

    async fn send_once(&self, api: &Api<Server>, base: &Server) -> Result<Server, kube::Error> {
        match &self.body {
            Body::Whole(whole) => within(replace(api, base.name(), whole)).await,
            Body::Patch(patch) => {
                // Every field that is sent is one of the kind's: the API need not look for others.
                let field_validation = Some(ValidationDirective::Ignore);
                let params = PatchParams { field_validation, ..PatchParams::default() };
                within(api.patch(base.name(), &params, &Patch::Merge(patch))).await
            }
        }
    }

    /// Asks whether the version has moved on by our own hand. Where another allocation came after, nobody can tell.
    async fn find_out(&self, api: &Api<Server>, base: &Server) -> Result<Sent, kube::Error> {
        let Some(server) = look(api, base.name()).await? else { return Ok(Sent::Gone) };
        match last_allocated(&server) {
            Some(at) if at == self.at => Ok(Sent::Written(server)),
            at if at == last_allocated(base) => Ok(Sent::Conflict(Some(server))),
            Some(_) | None => {
                let why = "the connection broke, and another allocation came after: this one may have happened";
                Ok(Sent::Failed(kube::Error::Service(why.into())))
            }
        }
    }
}

fn last_allocated(server: &Server) -> Option<&str> {
    server.metadata.annotations.as_ref()?.get(LAST_ALLOCATED).map(String::as_str)
}

/// Reads a server; `None` if there is none.
pub(super) async fn look(api: &Api<Server>, name: &str) -> Result<Option<Server>, kube::Error> {
    within(api.get_opt(name)).await
}

async fn replace(api: &Api<Server>, name: &str, whole: &Value) -> Result<Server, kube::Error> {
    let body = serde_json::to_vec(whole).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).replace(name, &PostParams::default(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let written = api.clone().into_client().request_text(request).await?;
    Server::read(written).map_err(kube::Error::SerdeError)
}

async fn within<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(answered) => answered,
        Err(late) => Err(kube::Error::Service(Box::new(late))),
    }
}

fn is(err: &kube::Error, code: u16) -> bool {
    matches!(err, kube::Error::Api(status) if status.code == code)
}

/// Whether the same write may be taken later: the way was broken, or the server was busy or in trouble.
fn may_pass(err: &kube::Error) -> bool {
    let kube::Error::Api(status) = err else { return true };
    status.code == 429 || status.code >= 500
}

/// Gives what the requests changed, and nothing else.
fn patch<'a>(
    base: &Server,
    after: &GameServer,
    requests: impl Iterator<Item = &'a allocation::Request> + Clone,
) -> Value {
    let texts = |texts: &Texts| texts.iter().map(|(k, v)| (k.to_string(), json!(&**v))).collect();
    let (labels, annotations): (Map<_, _>, Map<_, _>) =
        (texts(&after.labels), texts(&after.annotations));
    let counters = requests.clone().flat_map(|r| r.counters.keys());
    let counters: Map<String, Value> = counters
        .filter_map(|key| Some((key.to_string(), after.counters.get(key)?)))
        .map(|(key, c)| (key, json!({"count": c.count, "capacity": c.capacity})))
        .collect();
    let lists = requests.flat_map(|r| r.lists.keys());
    let lists: Map<String, Value> = lists
        .filter_map(|key| Some((key.to_string(), after.lists.get(key)?)))
        .map(|(key, l)| {
            let values: Vec<&str> = l.values.iter().map(|v| &**v).collect();
            (key, json!({"capacity": l.capacity, "values": values}))
        })
        .collect();
    let mut patch = json!({
        "metadata": {"resourceVersion": base.version(), "annotations": annotations},
        "status": {"state": after.state.as_str()},
    });
    for (part, name, map) in [
        ("metadata", "labels", labels),
        ("status", "counters", counters),
        ("status", "lists", lists),
    ] {
        if !map.is_empty() {
            patch[part][name] = Value::Object(map);
        }
    }
    patch
}

/// Puts into an object what a patch has; one of ours removes nothing.
fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

#[cfg(test)]
mod tests {
    use decide::allocation::{CounterAction, CounterVerb, Request};
    use kube::core::DynamicObject;

    use super::super::server::tests::server;
    use super::*;

    #[test]
    fn a_write_names_its_version_and_only_what_changes() {
        let one = CounterAction { capacity: None, change: Some((CounterVerb::Increment, 1)) };
        let request = |label: &str| Request {
            labels: [(label.into(), "x".into())].into(),
            counters: [("rooms".into(), one.clone())].into(),
            ..Request::default()
        };
        let both = [request("first"), request("second")];
        let write = Write::new(&server("a", "7", "Ready"), both.iter(), Timestamp::UNIX_EPOCH);
        assert_eq!(
            write.body,
            Body::Patch(json!({
                "metadata": {
                    "resourceVersion": "7", "labels": {"first": "x", "second": "x"},
                    "annotations": {"agones.dev/last-allocated": "1970-01-01T00:00:00Z"},
                },
                "status": {"state": "Allocated", "counters": {"rooms": {"count": 2, "capacity": 2}}},
            }))
        );
        assert!(write.warnings.is_empty());
    }

    #[test]
    fn a_server_whose_text_is_known_is_written_as_a_whole() {
        let object = json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer",
            "metadata": {"name": "a", "resourceVersion": "7", "finalizers": ["f"], "managedFields": [{"manager": "m"}]},
            "spec": {"ports": [{"hostPort": 7000}]},
            "status": {"state": "Ready", "address": "10.0.0.1"},
        });
        let text = object.to_string();
        let shown: DynamicObject = serde_json::from_value(object).unwrap();
        let answered = Server::read(text).unwrap();
        let request = Request::default();
        for server in [shown.into(), answered] {
            let write = Write::new(&server, [&request].into_iter(), Timestamp::UNIX_EPOCH);
            assert_eq!(
                write.body,
                Body::Whole(json!({
                    "apiVersion": "agones.dev/v1", "kind": "GameServer",
                    "metadata": {
                        "name": "a", "resourceVersion": "7", "finalizers": ["f"],
                        "annotations": {"agones.dev/last-allocated": "1970-01-01T00:00:00Z"},
                    },
                    "spec": {"ports": [{"hostPort": 7000}]},
                    "status": {"state": "Allocated", "address": "10.0.0.1"},
                }))
            );
        }
    }
}
