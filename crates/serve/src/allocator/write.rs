//! The write that makes an allocation.
//!
//! It names the version it was decided on, and has labels, annotations, state, counters and lists together, as a merge patch or merged
//! into the server's whole text. A write without an answer is sent again as it was: the API accepts it, or reports that the version has
//! moved on, and then the moment in `agones.dev/last-allocated` tells whether this write did that.

use std::sync::Arc;
use std::time::Duration;

use api::agones::{self, GameServer, GameServerStatus};
use cluster::{Cache, CachedGameServer};
use decide::allocation::{self, LAST_ALLOCATED, Warning, apply};
use decide::gameserver::{self, Texts};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, GetParams, Patch, PatchParams, PostParams, Request, ValidationDirective};
use serde_json::{Map, Value, json};

/// How long to wait before a write without an answer is sent again.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The outcome of sending a write.
pub(super) enum SendOutcome {
    /// It is written, and the server is now like this.
    Written(Arc<CachedGameServer>),
    /// Another write came first; the server as it is now, if it had to be read.
    Conflict(Option<Arc<CachedGameServer>>),
    /// The server no longer exists.
    Gone,
    /// The API refused, or did not answer often enough.
    Failed(kube::Error),
}

/// A write to one server, for one request or several.
pub(super) struct Write {
    body: Body,
    /// The moment that tells this write from another.
    at: String,
    /// Actions that did not apply.
    pub(super) warnings: Vec<Warning>,
}

/// The body of a write.
#[derive(Debug, PartialEq)]
enum Body {
    /// The fields that change.
    Patch(Value),
    /// The whole server as it is afterwards, where its text is known.
    Whole(Value),
}

impl Write {
    /// Works out what requests do to a server, one after the other.
    pub(super) fn new<'a>(
        base: &CachedGameServer,
        requests: impl Iterator<Item = &'a allocation::Request> + Clone,
        now: Timestamp,
    ) -> Self {
        // Without its metadata, so that the labels and annotations it has afterwards are those that change.
        let status = base.object.status.as_ref();
        let mut after = agones::server_view(
            &ObjectMeta::default(),
            status.unwrap_or(&GameServerStatus::default()),
        );
        let mut warnings = Vec::new();
        requests.clone().for_each(|request| warnings.extend(apply(request, &mut after, now)));
        let at = after.annotations.get(LAST_ALLOCATED).map(ToString::to_string);
        let patch = patch(base, &after, requests);
        let body = match base.text.as_deref().map(serde_json::from_str::<Value>) {
            Some(Ok(mut whole)) => {
                merge(&mut whole, patch);
                // Field managers are for the API server to track.
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
    pub(super) async fn send(
        &self,
        api: &Api<GameServer>,
        cache: &Cache<CachedGameServer>,
        base: &CachedGameServer,
    ) -> SendOutcome {
        let mut pauses = PAUSES.iter();
        let mut in_doubt = false;
        loop {
            let failed = match self.send_once(api, cache, base).await {
                Ok(server) => return SendOutcome::Written(server),
                Err(err) if is(&err, 409) && !in_doubt => return SendOutcome::Conflict(None),
                Err(err) if is(&err, 409) => match self.resolve(api, cache, base).await {
                    Ok(sent) => return sent,
                    Err(err) => err,
                },
                Err(err) if is(&err, 404) => return SendOutcome::Gone,
                Err(err) => err,
            };
            let Some(pause) = pauses.next().filter(|_| may_pass(&failed)) else {
                return SendOutcome::Failed(failed);
            };
            tracing::debug!(error = %cluster::explain(&failed), "sending a write again");
            in_doubt = true;
            tokio::time::sleep(*pause).await;
        }
    }

    async fn send_once(
        &self,
        api: &Api<GameServer>,
        cache: &Cache<CachedGameServer>,
        base: &CachedGameServer,
    ) -> Result<Arc<CachedGameServer>, kube::Error> {
        let (name, request) = (&base.view.name, Request::new(api.resource_url()));
        let request = match &self.body {
            Body::Whole(whole) => {
                let body = serde_json::to_vec(whole).map_err(kube::Error::SerdeError)?;
                request.replace(name, &PostParams::default(), body)
            }
            Body::Patch(patch) => {
                // Every field that is sent is one of the kind's: the API need not look for others.
                let field_validation = Some(ValidationDirective::Ignore);
                let params = PatchParams { field_validation, ..PatchParams::default() };
                request.patch(name, &params, &Patch::Merge(patch))
            }
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let text = within(api.clone().into_client().request_text(request)).await?;
        cache.decode(text).map_err(kube::Error::SerdeError)
    }

    /// Finds out whether this write has moved the version on. Where another allocation came after, that cannot be known.
    async fn resolve(
        &self,
        api: &Api<GameServer>,
        cache: &Cache<CachedGameServer>,
        base: &CachedGameServer,
    ) -> Result<SendOutcome, kube::Error> {
        let Some(server) = read(api, cache, &base.view.name).await? else {
            return Ok(SendOutcome::Gone);
        };
        match last_allocated(&server) {
            Some(at) if at == self.at => Ok(SendOutcome::Written(server)),
            at if at == last_allocated(base) => Ok(SendOutcome::Conflict(Some(server))),
            Some(_) | None => {
                let why = "the connection broke, and another allocation came after: this one may have happened";
                Ok(SendOutcome::Failed(kube::Error::Service(why.into())))
            }
        }
    }
}

fn last_allocated(server: &CachedGameServer) -> Option<&str> {
    server.object.metadata.annotations.as_ref()?.get(LAST_ALLOCATED).map(String::as_str)
}

/// Reads a server; `None` if there is none.
pub(super) async fn read(
    api: &Api<GameServer>,
    cache: &Cache<CachedGameServer>,
    name: &str,
) -> Result<Option<Arc<CachedGameServer>>, kube::Error> {
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let request = request.map_err(kube::Error::BuildRequest)?;
    match within(api.clone().into_client().request_text(request)).await {
        Ok(text) => cache.decode(text).map(Some).map_err(kube::Error::SerdeError),
        Err(err) if is(&err, 404) => Ok(None),
        Err(err) => Err(err),
    }
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

/// Returns what the requests changed, and nothing else.
fn patch<'a>(
    base: &CachedGameServer,
    after: &gameserver::GameServer,
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
        "metadata": {"resourceVersion": base.object.metadata.resource_version, "annotations": annotations},
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

/// Merges a patch into an object; one of ours removes nothing.
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
    use cluster::CacheEntry as _;
    use decide::allocation::{CounterAction, CounterVerb, Request};

    use super::super::answer::tests::server;
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
            "spec": {"ports": [{"name": "game", "hostPort": 7000}], "template": {"unknown": 1}},
            "status": {"state": "Ready", "address": "10.0.0.1"},
        });
        let text = object.to_string();
        let server = CachedGameServer::decode(&text).unwrap().with_text(text.into());
        let request = Request::default();
        let write = Write::new(&server, [&request].into_iter(), Timestamp::UNIX_EPOCH);
        assert_eq!(
            write.body,
            Body::Whole(json!({
                "apiVersion": "agones.dev/v1", "kind": "GameServer",
                "metadata": {
                    "name": "a", "resourceVersion": "7", "finalizers": ["f"],
                    "annotations": {"agones.dev/last-allocated": "1970-01-01T00:00:00Z"},
                },
                "spec": {"ports": [{"name": "game", "hostPort": 7000}], "template": {"unknown": 1}},
                "status": {"state": "Allocated", "address": "10.0.0.1"},
            }))
        );
    }
}
