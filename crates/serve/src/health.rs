//! The probes: `/readyz` reports the tasks that are not running as they should, and `/health-check` whether nodes are evaluated.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use control::nodes::{LivenessLimits, NodeMetrics};
use process::{Clock, Supervisor};

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

/// Returns the route `/health-check`, with the answers of Cluster Autoscaler: an error once evaluations of the cluster have not begun, or
/// not succeeded, for too long. A replica that is not the leader is alive.
pub fn node_router(nodes: NodeMetrics, limits: LivenessLimits, clock: Clock) -> Router {
    let check = move || {
        let problem = nodes.activity().problem(&limits, clock.now());
        std::future::ready(match problem {
            None => (StatusCode::OK, "OK".to_owned()),
            Some(problem) => (StatusCode::INTERNAL_SERVER_ERROR, problem),
        })
    };
    Router::new().route("/health-check", get(check))
}
