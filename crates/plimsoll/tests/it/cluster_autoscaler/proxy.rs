//! A proxy between a program and the API server that records each request and the status of its answer. It passes credentials on as they
//! come, and has none of its own.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use kube::Client;
use tokio::net::TcpListener;

/// A request that was answered.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) method: String,
    /// The path with the query.
    pub(super) path: String,
    pub(super) status: u16,
}

/// The proxy, for as long as it lives.
pub(super) struct Proxy {
    pub(super) url: String,
    records: Arc<Mutex<Vec<Recorded>>>,
    _serving: tokio::task::JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy to the API server of a client without credentials.
    pub(super) async fn start(server: Client) -> Self {
        let records = Arc::<Mutex<Vec<Recorded>>>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(forward).with_state((server, Arc::clone(&records)));
        let mut serving = tokio::task::JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, records, _serving: serving }
    }

    pub(super) fn records(&self) -> Vec<Recorded> {
        self.records.lock().unwrap().clone()
    }
}

type Shared = (Client, Arc<Mutex<Vec<Recorded>>>);

async fn forward(State((server, records)): State<Shared>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().to_string();
    parts.uri = path.parse().unwrap();
    parts.headers.remove(header::HOST);
    let method = parts.method.to_string();
    let request = axum::http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let mut answer = match server.send(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let mut answer = Response::new(Body::from(error.to_string()));
            *answer.status_mut() = StatusCode::BAD_GATEWAY;
            answer
        }
    };
    answer.headers_mut().remove(header::TRANSFER_ENCODING);
    let status = answer.status().as_u16();
    records.lock().unwrap().push(Recorded { method, path, status });
    answer
}
