//! The API server as a tower service, used with and without a socket.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};

use crate::core::Core;
use crate::request::{BODY_LIMIT, Body, Caller};
use crate::rest;
use crate::status::Status;

/// The time limit for receiving a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Handles requests as the administrator. Pass it to `kube::Client::new`.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
}

impl Service {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        Box::pin(async move { Ok(answer(&core, request, Caller::admin()).await) })
    }
}

/// Reads the body of a request and handles it.
pub(crate) async fn answer<B>(
    core: &Arc<Core>,
    request: Request<B>,
    caller: Caller,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    match read(body).await {
        Ok(body) => rest::answer(core, parts, body, caller).await,
        Err(status) => rest::refusal(&status),
    }
}

async fn read<B>(body: B) -> Result<Bytes, Box<Status>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let body = Limited::new(body, BODY_LIMIT).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(err)) if err.is::<http_body_util::LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {BODY_LIMIT}");
            Err(Status::new(413, "RequestEntityTooLarge", message))
        }
        Ok(Err(err)) => Err(Status::bad_request(format!("could not read the body: {err}"))),
        Err(_) => {
            Err(Status::new(408, "Timeout", "the body of the request did not arrive in time"))
        }
    }
}
