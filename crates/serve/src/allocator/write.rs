//! The write of an allocation.
//!
//! It has the resource version as a precondition, and changes labels, annotations, state, counters and lists together. It is a
//! replacement where the cache keeps the server's text, since kube-apiserver spends a tenth less on that, and a merge patch otherwise. A
//! write without a response is sent again unchanged: the API accepts it, or reports a conflict, and then the time in
//! `agones.dev/last-allocated` shows whether this write caused it.

use std::sync::Arc;
use std::time::Duration;

use api::agones::{self, GameServer, GameServerStatus};
use cluster::{Cache, CachedGameServer};
use decide::allocation::{self, LAST_ALLOCATED, Warning, apply};
use decide::gameserver::{self, StringMap};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, GetParams, Patch, PatchParams, PostParams, Request, ValidationDirective};
use serde_json::{Map, Value, json};

/// The delays before a write without a response is retried.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of sending a write.
pub(super) enum SendOutcome {
    /// It succeeded; this is the current server.
    Written(Arc<CachedGameServer>),
    /// Another write came first; with the current server, if it had to be read.
    Conflict(Option<Arc<CachedGameServer>>),
    /// The server no longer exists.
    Gone,
    /// The API rejected it, or all retries failed.
    Failed(kube::Error),
}

/// A write to one server, for one request or several.
pub(super) struct Write {
    body: Body,
    /// The allocation time, which identifies this write.
    allocated_at: String,
    /// Actions that did not apply.
    pub(super) warnings: Vec<Warning>,
}

/// The body of a write.
#[derive(Debug, PartialEq)]
enum Body {
    /// The fields that change.
    Patch(Value),
    /// The whole server after the write, where its text is known.
    Whole(Value),
}

impl Write {
    /// Applies requests to a server, one after the other.
    pub(super) fn new<'a>(
        base: &CachedGameServer,
        requests: impl Iterator<Item = &'a allocation::Request> + Clone,
        now: Timestamp,
    ) -> Self {
        // Without metadata, so that the resulting labels and annotations are only those that change.
        let status = base.object.status.as_ref();
        let mut after = agones::server_view(
            &ObjectMeta::default(),
            status.unwrap_or(&GameServerStatus::default()),
        );
        let mut warnings = Vec::new();
        requests.clone().for_each(|request| warnings.extend(apply(request, &mut after, now)));
        let allocated_at = after.annotations.get(LAST_ALLOCATED).map(ToString::to_string);
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
        Self { body, allocated_at: allocated_at.unwrap_or_default(), warnings }
    }

    /// Sends the write, and retries it while its outcome is unknown.
    pub(super) async fn send(
        &self,
        api: &Api<GameServer>,
        cache: &Cache<CachedGameServer>,
        base: &CachedGameServer,
    ) -> SendOutcome {
        let mut delays = RETRY_DELAYS.iter();
        let mut is_retry = false;
        loop {
            let failed = match self.send_once(api, cache, base).await {
                Ok(server) => return SendOutcome::Written(server),
                Err(err) if has_code(&err, 409) && !is_retry => return SendOutcome::Conflict(None),
                Err(err) if has_code(&err, 409) => match self.resolve(api, cache, base).await {
                    Ok(sent) => return sent,
                    Err(err) => err,
                },
                Err(err) if has_code(&err, 404) => return SendOutcome::Gone,
                Err(err) => err,
            };
            let Some(delay) = delays.next().filter(|_| is_retryable(&failed)) else {
                return SendOutcome::Failed(failed);
            };
            tracing::debug!(error = %cluster::explain(&failed), "a write failed; retrying");
            is_retry = true;
            tokio::time::sleep(*delay).await;
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
                // Every field is part of the schema, so the API need not validate the fields.
                let field_validation = Some(ValidationDirective::Ignore);
                let params = PatchParams { field_validation, ..PatchParams::default() };
                request.patch(name, &params, &Patch::Merge(patch))
            }
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let text = with_timeout(api.clone().into_client().request_text(request)).await?;
        cache.decode(text).map_err(kube::Error::SerdeError)
    }

    /// Finds out whether an earlier attempt caused the conflict. That cannot be known if another allocation followed.
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
            Some(at) if at == self.allocated_at => Ok(SendOutcome::Written(server)),
            at if at == last_allocated(base) => Ok(SendOutcome::Conflict(Some(server))),
            Some(_) | None => {
                let why = "the outcome is unknown: the connection was lost, and another allocation followed";
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
    match with_timeout(api.clone().into_client().request_text(request)).await {
        Ok(text) => cache.decode(text).map(Some).map_err(kube::Error::SerdeError),
        Err(err) if has_code(&err, 404) => Ok(None),
        Err(err) => Err(err),
    }
}

async fn with_timeout<T>(
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answered) => answered,
        Err(late) => Err(kube::Error::Service(Box::new(late))),
    }
}

fn has_code(err: &kube::Error, code: u16) -> bool {
    matches!(err, kube::Error::Api(status) if status.code == code)
}

/// Whether a retry may succeed: the connection failed, or the server was overloaded or failing.
fn is_retryable(err: &kube::Error) -> bool {
    let kube::Error::Api(status) = err else { return true };
    status.code == 429 || status.code >= 500
}

/// Returns a merge patch with the fields that the requests changed.
fn patch<'a>(
    base: &CachedGameServer,
    after: &gameserver::GameServer,
    requests: impl Iterator<Item = &'a allocation::Request> + Clone,
) -> Value {
    let texts =
        |texts: &StringMap| texts.iter().map(|(k, v)| (k.to_string(), json!(&**v))).collect();
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

/// Merges a patch into an object. These patches have no nulls, so nothing is removed.
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
    fn a_write_has_its_resource_version_and_only_the_changed_fields() {
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
    fn a_server_with_cached_text_is_replaced() {
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
