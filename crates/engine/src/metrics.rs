//! The API group `metrics.k8s.io`, for `kubectl top`: what the kubelet of this process measures.
//!
//! Pods and nodes are listed by the API server with the selectors of the request, and each that is measured is in the answer.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{Body, Delegate};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::core::{ObjectList, PartialObjectMeta};
use kubelet::{Measurement, ResourceMetrics, Usage};
use serde_json::{Value, json};
use tower::BoxError;

/// The group.
pub(crate) const GROUP: &str = "metrics.k8s.io";
/// Its only version.
pub(crate) const VERSION: &str = "v1beta1";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Serves the group with what a kubelet measures.
pub(crate) fn delegate(client: Client, metrics: ResourceMetrics) -> Delegate {
    let handle = move |request: Request<Full<Bytes>>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let answer = answer(&client, &metrics, &request).await;
            Ok::<_, BoxError>(answer.unwrap_or_else(|error| error.response()))
        }
    };
    Delegate::new(tower::service_fn(handle))
}

/// Why a request failed.
struct Failure {
    code: StatusCode,
    reason: String,
    message: String,
}

impl Failure {
    fn new(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into() }
    }

    fn response(&self) -> Response<Body> {
        let Self { code, reason, message } = self;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        respond(*code, &status)
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            let code = StatusCode::from_u16(status.code);
            let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Self::new(code, &status.reason, status.message.clone());
        }
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string())
    }
}

fn respond(code: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

async fn answer(
    client: &Client,
    metrics: &ResourceMetrics,
    request: &Request<Full<Bytes>>,
) -> Result<Response<Body>, Failure> {
    if request.method() != Method::GET {
        let message = "the server does not allow this method on the requested resource";
        return Err(Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message));
    }
    let path: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
    let query = request.uri().query().unwrap_or_default();
    let value = match &path[..] {
        ["apis", _, _] => resources(),
        ["apis", _, _, "nodes"] => list(client, metrics, "/api/v1/nodes", query, node).await?,
        ["apis", _, _, "nodes", name] => {
            let query = format!("fieldSelector=metadata.name%3D{name}");
            let found = list(client, metrics, "/api/v1/nodes", &query, node).await?;
            single(found, || format!("nodemetrics.{GROUP} {name:?} not found"))?
        }
        ["apis", _, _, "pods"] => list(client, metrics, "/api/v1/pods", query, pod).await?,
        ["apis", _, _, "namespaces", namespace, "pods"] => {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            list(client, metrics, &path, query, pod).await?
        }
        ["apis", _, _, "namespaces", namespace, "pods", name] => {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let query = format!("fieldSelector=metadata.name%3D{name}");
            let found = list(client, metrics, &path, &query, pod).await?;
            let missing = format!("podmetrics.{GROUP} \"{namespace}/{name}\" not found");
            single(found, || missing)?
        }
        _ => {
            let message = "the server could not find the requested resource";
            return Err(Failure::new(StatusCode::NOT_FOUND, "NotFound", message));
        }
    };
    Ok(respond(StatusCode::OK, &value))
}

fn resources() -> Value {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION,
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
    })
}

/// The kind of a list, and how an object of it is written; `None`: it is not measured.
type Render = fn(&ObjectMeta, &Measurement) -> (&'static str, Option<Value>);

async fn list(
    client: &Client,
    metrics: &ResourceMetrics,
    path: &str,
    query: &str,
    render: Render,
) -> Result<Value, Failure> {
    // Only the selectors matter here.
    let selectors = query
        .split('&')
        .filter(|pair| pair.starts_with("labelSelector=") || pair.starts_with("fieldSelector="));
    let uri = format!("{path}?{}", selectors.collect::<Vec<_>>().join("&"));
    let request = Request::get(uri).header(header::ACCEPT, METADATA_ONLY).body(Vec::new());
    let request = request
        .map_err(|err| Failure::new(StatusCode::BAD_REQUEST, "BadRequest", err.to_string()))?;
    let stopped = || {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "no kubelet is running")
    };
    let measured = metrics.measure().await.ok_or_else(stopped)?;
    let found: ObjectList<PartialObjectMeta> = client.request(request).await?;
    let (kind, _) = render(&ObjectMeta::default(), &measured);
    let items: Vec<Value> =
        found.items.iter().filter_map(|object| render(&object.metadata, &measured).1).collect();
    Ok(
        json!({"kind": format!("{kind}List"), "apiVersion": API_VERSION, "metadata": {}, "items": items}),
    )
}

/// Returns the only item of a list.
fn single(mut list: Value, missing: impl FnOnce() -> String) -> Result<Value, Failure> {
    match list["items"].as_array_mut().and_then(Vec::pop) {
        Some(item) => Ok(item),
        None => Err(Failure::new(StatusCode::NOT_FOUND, "NotFound", missing())),
    }
}

fn pod(meta: &ObjectMeta, measured: &Measurement) -> (&'static str, Option<Value>) {
    let kind = "PodMetrics";
    let containers = meta.uid.as_ref().and_then(|uid| measured.pods.get(uid));
    let item = containers.map(|containers| {
        let mut item = header_of(kind, meta, measured);
        let containers =
            containers.iter().map(|(name, used)| json!({"name": name, "usage": usage(*used)}));
        item["containers"] = containers.collect();
        item
    });
    (kind, item)
}

fn node(meta: &ObjectMeta, measured: &Measurement) -> (&'static str, Option<Value>) {
    let kind = "NodeMetrics";
    let used = meta.name.as_ref().and_then(|name| measured.nodes.get(name));
    let item = used.map(|used| {
        let mut item = header_of(kind, meta, measured);
        item["usage"] = usage(*used);
        item
    });
    (kind, item)
}

fn header_of(kind: &str, meta: &ObjectMeta, measured: &Measurement) -> Value {
    let at = measured.measured_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut metadata: BTreeMap<&str, Value> = BTreeMap::new();
    metadata.insert("name", json!(meta.name));
    metadata.insert("creationTimestamp", json!(at));
    metadata.extend(meta.namespace.as_ref().map(|namespace| ("namespace", json!(namespace))));
    metadata.extend(meta.labels.as_ref().map(|labels| ("labels", json!(labels))));
    json!({
        "kind": kind, "apiVersion": API_VERSION, "metadata": metadata,
        "timestamp": at, "window": window(measured.window),
    })
}

fn window(window: Duration) -> String {
    let (seconds, millis) = (window.as_secs(), window.subsec_millis());
    if millis == 0 { format!("{seconds}s") } else { format!("{seconds}.{millis:03}s") }
}

fn usage(used: Usage) -> Value {
    json!({
        "cpu": format!("{}n", used.cpu_nanos),
        "memory": format!("{}Ki", used.memory_bytes.div_ceil(1024)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_durations_that_go_reads() {
        for (millis, text) in [(1000, "1s"), (15_012, "15.012s"), (60_000, "60s")] {
            assert_eq!(window(Duration::from_millis(millis)), text);
        }
    }
}
