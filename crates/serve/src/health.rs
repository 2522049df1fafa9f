//! `/readyz`, the readiness probe: reports the tasks that are not running as they should.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use process::Supervisor;

/// Returns the route `/readyz`, which lists the current problems, if there are any.
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
