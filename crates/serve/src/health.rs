//! Is everything running that should be? What a cluster asks before it sends anyone here.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use process::Supervisor;

/// Returns `/readyz`, which says what is wrong, if anything is.
pub fn router(supervisor: Supervisor) -> Router {
    let ready = move || {
        let problems = supervisor.problems();
        std::future::ready(match problems.as_slice() {
            [] => (StatusCode::OK, "ok".to_owned()),
            problems => (StatusCode::INTERNAL_SERVER_ERROR, problems.join("\n")),
        })
    };
    Router::new().route("/readyz", get(ready))
}
