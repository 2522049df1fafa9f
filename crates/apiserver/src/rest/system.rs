//! Version, health and other endpoints about the server itself.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, header, request};
use serde_json::json;

use super::form::{self, Form};
use super::{Reply, query::Query};
use crate::core::Core;
use crate::discovery;
use crate::status::{ApiResult, Status};

/// The version of Kubernetes whose behaviour the engine follows.
const VERSION: &str = "v1.36.3";

/// The media type in which kubectl requests version 2 of OpenAPI. It does so only for kinds that version 3 does not describe: kinds of
/// delegated groups. The answer is then an empty document, so that kubectl leaves validation to the server.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The same without `@`, which media types may not have, as kube-apiserver answers it.
const SPELT_OUT: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// An empty document of that type.
const NOTHING: &[u8] = b"\x0a\x032.0\x12\x0d\x0a\x07nothing\x12\x02v1\x42\x00";

/// Answers a request that names no resource.
pub(super) async fn answer(core: &Arc<Core>, parts: &request::Parts) -> ApiResult<Reply> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    match parts.uri.path().trim_end_matches('/') {
        "/version" => Ok(Form::JSON.reply(200, &version())),
        "/readyz" | "/livez" | "/healthz" => Ok(health(core, parts)),
        path if path.starts_with("/openapi/") => Ok(openapi(core, parts, path)),
        path if path.starts_with("/api") => discover(core, parts, path).await,
        "" => Ok(Form::JSON.reply(
            200,
            &json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2",
            "/openapi/v3", "/readyz", "/version"]}),
        )),
        _ => Ok(form::text(404, "404 page not found\n")),
    }
}

/// Returns which groups, versions and resources there are.
async fn discover(core: &Arc<Core>, parts: &request::Parts, path: &str) -> ApiResult<Reply> {
    let served = core.registry.served();
    let accepted = parts.headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    let accepted: Vec<&str> = accepted.flat_map(|v| v.split(',')).map(str::trim).collect();
    let wants = |version: &str| {
        accepted.iter().any(|a| {
            a.contains("as=APIGroupDiscoveryList") && a.contains(&format!(";v={version};"))
        })
    };
    let delegated = discovery::delegated(&core.delegates).await;
    if matches!(path, "/api" | "/apis") {
        for (version, content_type) in [
            ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            (
                "v2beta1",
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            ),
        ] {
            if wants(version) {
                let document = discovery::aggregated(&served, &delegated, path, version);
                let body = Bytes::from(serde_json::to_vec(&document).unwrap_or_default());
                return Ok(form::reply(200, content_type, body));
            }
        }
    }
    let host = parts.headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    if let Some(document) = discovery::document(&served, &delegated, path, host) {
        return Ok(Form::accepted(&parts.headers).unwrap_or(Form::JSON).reply(200, &document));
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "apis", group, _] if served.iter().any(|((g, _), _)| g == group) => {
            Err(Status::no_such_resource())
        }
        _ => Ok(form::text(404, "404 page not found\n")),
    }
}

/// Answers with an OpenAPI document.
fn openapi(core: &Core, parts: &request::Parts, path: &str) -> Reply {
    let accepted = parts.headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    let accepted: Vec<&str> = accepted.flat_map(|v| v.split(',')).collect();
    let is_json = |a: &&str| a.contains("json") || a.contains("*/*");
    if path == "/openapi/v2" && accepted.iter().any(|a| a.contains(PROTOBUF)) {
        return form::reply(200, SPELT_OUT, Bytes::from_static(NOTHING));
    }
    if !accepted.is_empty() && !accepted.iter().any(is_json) {
        return form::text(406, "only application/json is served here\n");
    }
    let Some(document) = crate::openapi::document(&core.registry.served(), path) else {
        return form::text(404, "404 page not found\n");
    };
    let etag = format!("\"{}\"", document.etag);
    let known = parts.headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut reply = if known == Some(etag.as_str()) {
        form::reply(304, "application/json", Bytes::new())
    } else {
        form::reply(200, "application/json", document.body)
    };
    if let Ok(value) = etag.parse() {
        reply.headers_mut().insert(header::ETAG, value);
    }
    reply
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("{VERSION}+plimsoll"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn health(core: &Core, parts: &request::Parts) -> Reply {
    if *core.stopping().borrow() {
        return form::text(500, "stopping");
    }
    let what = parts.uri.path().trim_matches('/');
    let problems = if what == "readyz" { core.supervisor.problems() } else { Vec::new() };
    if !problems.is_empty() {
        let failed: String = problems.iter().map(|problem| format!("[-]{problem}\n")).collect();
        return form::text(500, format!("{failed}{what} check failed\n"));
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let what = parts.uri.path().trim_matches('/');
    // A restart would not help a process that cannot write.
    if let Some(why) = core.store.trouble().filter(|_| what != "livez") {
        let text = format!("[+]ping ok\n[-]store failed: {why}\n{what} check failed\n");
        return form::text(500, text);
    }
    if query.flag("verbose").is_some() {
        return form::text(200, format!("[+]ping ok\n[+]store ok\n{what} check passed\n"));
    }
    form::text(200, "ok")
}
