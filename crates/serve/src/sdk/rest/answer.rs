//! HTTP responses of the REST interface.

use std::borrow::Cow;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tonic::Code;

use crate::proto::sdk;
use crate::sdk::error::CallError;

pub(super) type RestResult = Result<Response, ErrorResponse>;

/// The header that grpc-gateway adds to its responses.
const GRPC_METADATA: (&str, &str) = ("grpc-metadata-content-type", "application/grpc");
const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// Responds with a message.
pub(super) fn reply<T: Serialize>(result: Result<T, CallError>) -> RestResult {
    let body = serde_json::to_vec(&result?)?;
    Ok(([JSON], [GRPC_METADATA], body).into_response())
}

/// Responds with an empty message.
pub(super) fn empty(result: Result<(), CallError>) -> RestResult {
    reply(result.map(|()| sdk::Empty {}))
}

/// An error response.
pub(super) struct ErrorResponse {
    status: StatusCode,
    code: Code,
    message: Cow<'static, str>,
}

impl ErrorResponse {
    pub(super) const NOT_FOUND: Self = Self {
        status: StatusCode::NOT_FOUND,
        code: Code::NotFound,
        message: Cow::Borrowed("Not Found"),
    };
    pub(super) const METHOD_NOT_ALLOWED: Self = Self {
        status: StatusCode::NOT_IMPLEMENTED,
        code: Code::Unimplemented,
        message: Cow::Borrowed("Method Not Allowed"),
    };
}

impl From<CallError> for ErrorResponse {
    fn from(error: CallError) -> Self {
        let status = match error {
            CallError::Invalid(_) | CallError::OutOfRange(_) => StatusCode::BAD_REQUEST,
            CallError::NotFound(_) => StatusCode::NOT_FOUND,
            CallError::AlreadyExists(_) => StatusCode::CONFLICT,
            CallError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, code: error.code(), message: error.to_string().into() }
    }
}

/// A body that is not JSON, or not the JSON of the expected message.
impl From<serde_json::Error> for ErrorResponse {
    fn from(err: serde_json::Error) -> Self {
        CallError::invalid_argument(err).into()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    code: i32,
    message: &'a str,
    details: [(); 0],
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let body = Body { code: self.code as i32, message: &self.message, details: [] };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        (self.status, [JSON], body).into_response()
    }
}
