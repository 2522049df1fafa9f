//! How answers and refusals look as HTTP.

use std::borrow::Cow;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tonic::Code;

use crate::proto::sdk;
use crate::sdk::refusal::Refusal;

pub(super) type Answer = Result<Response, Failure>;

/// What gateways to gRPC say about the answer they got.
const GRPC: (&str, &str) = ("grpc-metadata-content-type", "application/grpc");
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// Answers with a message.
pub(super) fn reply<T: Serialize>(result: Result<T, Refusal>) -> Answer {
    let body = serde_json::to_vec(&result?)?;
    Ok(([JSON], [GRPC], body).into_response())
}

/// Answers that it is done.
pub(super) fn empty(result: Result<(), Refusal>) -> Answer {
    reply(result.map(|()| sdk::Empty {}))
}

/// Why there is no answer.
pub(super) struct Failure {
    status: StatusCode,
    code: Code,
    message: Cow<'static, str>,
}

impl Failure {
    pub(super) const NOT_FOUND: Self = Self {
        status: StatusCode::NOT_FOUND,
        code: Code::NotFound,
        message: Cow::Borrowed("Not Found"),
    };
    pub(super) const WRONG_VERB: Self = Self {
        status: StatusCode::NOT_IMPLEMENTED,
        code: Code::Unimplemented,
        message: Cow::Borrowed("Method Not Allowed"),
    };
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::Invalid(_) | Refusal::OutOfRange(_) => StatusCode::BAD_REQUEST,
            Refusal::NotFound(_) => StatusCode::NOT_FOUND,
            Refusal::Exists(_) => StatusCode::CONFLICT,
            Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, code: refusal.code(), message: refusal.to_string().into() }
    }
}

/// A body that is no JSON, or not the JSON of its message.
impl From<serde_json::Error> for Failure {
    fn from(err: serde_json::Error) -> Self {
        Refusal::argument(err).into()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    code: i32,
    message: &'a str,
    details: [(); 0],
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = Body { code: self.code as i32, message: &self.message, details: [] };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        (self.status, [JSON], body).into_response()
    }
}
