//! What does the server say of itself?

use std::sync::Arc;

use http::{Method, request};
use serde_json::json;

use super::form::{self, Form};
use super::{Reply, query::Query};
use crate::core::Core;
use crate::status::{Answer, Status};

/// The version of Kubernetes whose behaviour the engine follows.
const VERSION: &str = "v1.36.3";

/// Answers a request that names no resource.
pub(super) fn answer(core: &Arc<Core>, parts: &request::Parts) -> Answer<Reply> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    match parts.uri.path().trim_end_matches('/') {
        "/version" => Ok(Form::JSON.reply(200, &version())),
        "/readyz" | "/livez" | "/healthz" => Ok(health(core, parts)),
        _ => Ok(form::text(404, "404 page not found\n")),
    }
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
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if query.flag("verbose").is_some() {
        let what = parts.uri.path().trim_matches('/');
        return form::text(200, format!("[+]ping ok\n[+]store ok\n{what} check passed\n"));
    }
    form::text(200, "ok")
}
