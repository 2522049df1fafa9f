//! A configurable webhook on loopback, and a Wasm module; both end with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(super) struct Webhook {
    pub(super) url: String,
    does: Arc<Does>,
    task: JoinHandle<()>,
}

/// The behaviour of the webhook: a size, or one of these.
const FAIL: i64 = -1;
const SLEEP: i64 = -2;
const KEEP: i64 = -3;

#[derive(Default)]
struct Does {
    answer: AtomicI64,
    /// The number of servers to keep beyond those in use, unless it is 0.
    adds: AtomicI64,
    asked: AtomicUsize,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let does = Arc::new(Does::default());
        let app = Router::new().route("/", post(answer)).with_state(Arc::clone(&does));
        let app = app.route("/spare.wasm", get(async || spare()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { url, does, task }
    }

    pub(super) fn wants(&self, replicas: i64) {
        self.does.answer.store(replicas, Ordering::SeqCst);
    }

    pub(super) fn adds(&self, spare: i64) {
        self.does.adds.store(spare, Ordering::SeqCst);
    }

    pub(super) fn fails(&self) {
        self.wants(FAIL);
    }

    pub(super) fn sleeps(&self) {
        self.wants(SLEEP);
    }

    pub(super) fn keeps(&self) {
        self.wants(KEEP);
    }

    pub(super) fn asked(&self) -> usize {
        self.does.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a Wasm module that wants four beyond those in use.
fn spare() -> Vec<u8> {
    let start = include_str!("../../../../connect/tests/modules/start.wat");
    let spare = include_str!("../../../../connect/tests/modules/spare.wat");
    wat::parse_str(format!("(module {start} {spare})")).unwrap()
}

async fn answer(
    State(does): State<Arc<Does>>,
    Json(review): Json<Value>,
) -> Result<Json<Value>, (StatusCode, &'static str)> {
    does.asked.fetch_add(1, Ordering::SeqCst);
    let uid = review["request"]["uid"].clone();
    let in_use = review["request"]["status"]["allocatedReplicas"].as_i64().unwrap();
    let spare = does.adds.load(Ordering::SeqCst);
    if spare > 0 {
        let response = json!({"uid": uid, "scale": true, "replicas": in_use + spare});
        return Ok(Json(json!({"response": response})));
    }
    let response = match does.answer.load(Ordering::SeqCst) {
        FAIL => return Err((StatusCode::SERVICE_UNAVAILABLE, "not today")),
        KEEP => json!({"uid": uid, "scale": false}),
        SLEEP => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            json!({"uid": uid, "scale": true, "replicas": 1})
        }
        replicas => json!({"uid": uid, "scale": true, "replicas": replicas}),
    };
    Ok(Json(json!({"request": review["request"], "response": response})))
}
