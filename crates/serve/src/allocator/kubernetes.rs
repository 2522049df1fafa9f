//! The API group `allocation.agones.dev`, for `kubectl create -f gameserverallocation.yaml`.
//!
//! Creating a GameServerAllocation allocates a game server, and the response has its status. Nothing is stored. The embedded
//! engine delegates the group to this service; on a cluster the API server does, as an aggregated API.

use api::allocation::{AllocationState, GameServerAllocation};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{AllocationError, Allocator};

const GROUP: &str = "allocation.agones.dev";
const VERSION: &str = "allocation.agones.dev/v1";
const RESOURCE: &str = "gameserverallocations";

/// The seconds after which a rejected client may retry.
const RETRY_AFTER: u32 = 1;

/// An error response.
struct ErrorStatus {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

/// Handles a request to the group. The namespace comes from the path.
pub async fn handle(allocator: &Allocator, request: Request<Bytes>) -> Response<Bytes> {
    let (parts, body) = request.into_parts();
    let yaml = wants_yaml(&parts.headers);
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let query = parts.uri.query().unwrap_or_default();
    let result = match (path.as_slice(), &parts.method) {
        (["apis", GROUP, "v1", "namespaces", namespace, RESOURCE], &Method::POST) => {
            create(allocator, namespace, query, &parts.headers, &body).await
        }
        (["apis", GROUP, "v1", "namespaces", _, RESOURCE, ..], method) => Err(not_allowed(method)),
        (["apis", GROUP, "v1", RESOURCE], method) => Err(not_allowed(method)),
        (path, &Method::GET) => discovery(path).map(|found| (StatusCode::OK, found)),
        (_, _) => Err(not_found()),
    };
    match result {
        Ok((code, value)) => respond(code, &value, yaml),
        Err(error) => error.response(yaml),
    }
}

async fn create(
    allocator: &Allocator,
    namespace: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(StatusCode, Value), ErrorStatus> {
    let now = allocator.shared.now();
    let mut allocation = read(headers, body, now)?;
    let in_object = allocation.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    if in_object != namespace {
        let message = format!(
            "the namespace of the object ({in_object}) does not match the namespace on the URL ({namespace})"
        );
        return Err(ErrorStatus::new(StatusCode::BAD_REQUEST, "BadRequest", message));
    }
    let is_dry_run = query.split('&').any(|pair| pair == "dryRun=All");
    let status = if is_dry_run {
        allocator.preview(&allocation)
    } else {
        let name = allocation.metadata.name.as_deref().unwrap_or_default();
        allocator
            .allocate(&allocation)
            .await
            .map_err(|error| ErrorStatus::from_error(error, name))?
    };
    if status.state == AllocationState::Allocated {
        allocation.metadata.name = Some(status.game_server_name.clone());
    }
    allocation.metadata.creation_timestamp = Some(Time(now));
    allocation.status = Some(status);
    Ok((StatusCode::CREATED, json!(allocation)))
}

/// Decodes the body by its content type, and admits it.
fn read(
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<GameServerAllocation, ErrorStatus> {
    let bad = |message| ErrorStatus::new(StatusCode::BAD_REQUEST, "BadRequest", message);
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let content_type = content_type.and_then(|t| t.split(';').next()).unwrap_or_default().trim();
    let mut value: Value = match content_type {
        "" | "application/json" | "*/*" => serde_json::from_slice(body)
            .map_err(|err| bad(format!("the body is not JSON: {err}")))?,
        "application/yaml" => std::str::from_utf8(body)
            .map_err(|err| bad(format!("the body is not text: {err}")))
            .and_then(|text| {
                serde_saphyr::from_str(text)
                    .map_err(|err| bad(format!("the body is not YAML: {err}")))
            })?,
        other => {
            let message = format!(
                "the body of the request was in an unknown format ({other}): expected application/json or application/yaml"
            );
            let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(ErrorStatus::new(code, "UnsupportedMediaType", message));
        }
    };
    let is_allocation = value.is_object()
        && value["kind"].as_str().unwrap_or(kind().kind) == kind().kind
        && value["apiVersion"].as_str().unwrap_or(VERSION) == VERSION;
    if !is_allocation {
        return Err(bad(format!("expected a GameServerAllocation of {VERSION}")));
    }
    let admission = api::Admission { old: None, now };
    (kind().admit)(&mut value, &admission).map_err(|problems| {
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        ErrorStatus::from_error(AllocationError::Invalid(problems), name)
    })?;
    serde_json::from_value(value).map_err(|err| bad(err.to_string()))
}

/// Returns the kind that the group serves.
fn kind() -> &'static api::Kind {
    api::find(Some(VERSION), "GameServerAllocation").expect("the kind is registered")
}

/// Returns the discovery documents.
fn discovery(path: &[&str]) -> Result<Value, ErrorStatus> {
    let version = json!({"groupVersion": VERSION, "version": "v1"});
    Ok(match path {
        ["apis", GROUP, "v1"] => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION,
            "resources": [{
                "name": RESOURCE, "singularName": "gameserverallocation", "namespaced": true,
                "kind": "GameServerAllocation", "verbs": ["create"], "shortNames": ["gsa"],
            }],
        }),
        ["apis", GROUP] => json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": GROUP,
            "versions": [version], "preferredVersion": version,
        }),
        ["openapi", "v2"] => {
            json!({"swagger": "2.0", "info": {"title": GROUP, "version": "v1"}, "paths": {}})
        }
        ["openapi", "v3"] => json!({"paths": {}}),
        ["healthz" | "livez" | "readyz"] => json!("ok"),
        // The API server then asks for each group and version.
        ["apis"] => {
            let message = "expected a group and version";
            return Err(ErrorStatus::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message));
        }
        _ => return Err(not_found()),
    })
}

impl ErrorStatus {
    /// Returns the status of a failed allocation. One without a name, or with only a generateName, has the name `""`, as in Agones.
    fn from_error(error: AllocationError, name: &str) -> Self {
        let details = json!({"group": GROUP, "kind": "GameServerAllocation"});
        let internal = StatusCode::INTERNAL_SERVER_ERROR;
        let message = error.to_string();
        match error {
            AllocationError::Invalid(problems) => {
                let mut status = api::refusal(kind(), name, &problems);
                Self {
                    message: status["message"].as_str().map_or(message, str::to_owned),
                    details: status["details"].take(),
                    ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "")
                }
            }
            // 429 is what matchmakers read as "none free".
            AllocationError::Overloaded(_) => {
                let mut details = details;
                details["retryAfterSeconds"] = RETRY_AFTER.into();
                let code = StatusCode::SERVICE_UNAVAILABLE;
                Self { details, ..Self::new(code, "ServiceUnavailable", message) }
            }
            AllocationError::Write(err) => Self {
                details,
                ..Self::new(
                    internal,
                    "InternalError",
                    format!("{message}: {}", cluster::explain(&*err)),
                )
            },
            AllocationError::NoPolicy(_) | AllocationError::Remote { .. } => {
                Self { details, ..Self::new(internal, "InternalError", message) }
            }
        }
    }

    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    fn response(&self, yaml: bool) -> Response<Bytes> {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": self.code.as_u16(), "reason": self.reason, "message": self.message,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        let mut response = respond(self.code, &status, yaml);
        if self.details["retryAfterSeconds"].is_number() {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        response
    }
}

fn not_allowed(method: &Method) -> ErrorStatus {
    let message =
        format!("{method} is not supported on {RESOURCE}.{GROUP}: they can only be created");
    ErrorStatus::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
}

fn not_found() -> ErrorStatus {
    let message = "the server could not find the requested resource";
    ErrorStatus::new(StatusCode::NOT_FOUND, "NotFound", message)
}

fn wants_yaml(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let first = accept.split([',', ';']).next().unwrap_or_default().trim();
    first == "application/yaml"
}

fn respond(code: StatusCode, value: &Value, yaml: bool) -> Response<Bytes> {
    let text = if yaml { serde_saphyr::to_string(value).ok() } else { None };
    let content_type = if text.is_some() { "application/yaml" } else { "application/json" };
    let mut response = Response::new(Bytes::from(text.unwrap_or_else(|| value.to_string())));
    *response.status_mut() = code;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
