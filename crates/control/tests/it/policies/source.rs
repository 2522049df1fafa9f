//! A metric source on loopback that returns a configured value; it ends with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) struct Source {
    pub(crate) url: String,
    does: Arc<Does>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Does {
    /// The bits of the value.
    value: AtomicU64,
    /// 0: answers; 1: no data; 2: fails; 3: is slow; 4: refuses the credentials.
    mode: AtomicUsize,
    asked: AtomicUsize,
}

impl Source {
    pub(crate) async fn start() -> Self {
        let does = Arc::new(Does::default());
        let app = Router::new().route("/", get(answer)).with_state(Arc::clone(&does));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { url, does, task }
    }

    pub(crate) fn returns(&self, value: f64) {
        self.does.value.store(value.to_bits(), Ordering::SeqCst);
        self.mode(0);
    }

    pub(crate) fn has_no_data(&self) {
        self.mode(1);
    }

    pub(crate) fn fails(&self) {
        self.mode(2);
    }

    pub(crate) fn is_slow(&self) {
        self.mode(3);
    }

    pub(crate) fn is_locked(&self) {
        self.mode(4);
    }

    fn mode(&self, mode: usize) {
        self.does.mode.store(mode, Ordering::SeqCst);
    }

    pub(crate) fn asked(&self) -> usize {
        self.does.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(does): State<Arc<Does>>) -> Result<Json<Value>, StatusCode> {
    does.asked.fetch_add(1, Ordering::SeqCst);
    let value = f64::from_bits(does.value.load(Ordering::SeqCst));
    match does.mode.load(Ordering::SeqCst) {
        1 => Ok(Json(json!({"value": null}))),
        2 => Err(StatusCode::SERVICE_UNAVAILABLE),
        3 => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Err(StatusCode::GATEWAY_TIMEOUT)
        }
        4 => Err(StatusCode::UNAUTHORIZED),
        _ => Ok(Json(json!({"value": value}))),
    }
}
