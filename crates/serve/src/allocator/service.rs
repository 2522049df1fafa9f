//! The allocation service for matchmakers, by gRPC and REST.
//!
//! One port serves both: `allocation.AllocationService`, and `POST /gameserverallocation` with the same messages as JSON.

use api::allocation::{AllocationState, GameServerAllocationStatus};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use tonic::{Code, Request, Status};

use super::{AllocationError, Allocator, messages};
use crate::proto::allocation::allocation_service_server::{
    AllocationService, AllocationServiceServer,
};
use crate::proto::allocation::{AllocationRequest, AllocationResponse};
use crate::proto::json;

/// The trailer with the delay before a retry, which gRPC clients with a retry policy respect.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
const RETRY_AFTER_MS: &str = "1000";
const RETRY_AFTER_S: &str = "1";

/// Returns the routes of gRPC and REST.
pub fn router(allocator: Allocator) -> Router {
    let grpc = AllocationServiceServer::new(GrpcService(allocator.clone()));
    let rest = Router::new().route("/gameserverallocation", post(rest)).with_state(allocator);
    tonic::service::Routes::new(grpc).into_axum_router().merge(rest)
}

struct GrpcService(Allocator);

#[tonic::async_trait]
impl AllocationService for GrpcService {
    async fn allocate(
        &self,
        request: Request<AllocationRequest>,
    ) -> Result<tonic::Response<AllocationResponse>, Status> {
        allocate(&self.0, request.into_inner()).await.map(tonic::Response::new)
    }
}

async fn rest(State(allocator): State<Allocator>, body: Bytes) -> Response {
    let result = match json::read::<AllocationRequest>(&body) {
        Ok(request) => allocate(&allocator, request).await,
        Err(err) => Err(Status::invalid_argument(err.to_string())),
    };
    match result {
        Ok(response) => axum::Json(response).into_response(),
        Err(status) => {
            let body = json!({"code": i32::from(status.code()), "message": status.message(), "details": []});
            let mut response = (http_code(status.code()), axum::Json(body)).into_response();
            if status.metadata().contains_key(PUSHBACK) {
                let seconds = HeaderValue::from_static(RETRY_AFTER_S);
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
            }
            response
        }
    }
}

async fn allocate(
    allocator: &Allocator,
    request: AllocationRequest,
) -> Result<AllocationResponse, Status> {
    let allocation = messages::allocation(request)?;
    to_response(allocator.allocate(&allocation).await?)
}

/// Converts a status into a response. The message has no state, so a status without a server is an error.
fn to_response(status: GameServerAllocationStatus) -> Result<AllocationResponse, Status> {
    match status.state {
        AllocationState::Allocated => Ok(messages::response(status)),
        AllocationState::UnAllocated => {
            Err(Status::resource_exhausted("there is no available GameServer to allocate"))
        }
        AllocationState::Contention => Err(Status::aborted(
            "too many concurrent requests: every attempt lost to another allocator",
        )),
    }
}

impl From<AllocationError> for Status {
    fn from(error: AllocationError) -> Self {
        let message = error.to_string();
        match error {
            AllocationError::Invalid(_) => Self::invalid_argument(message),
            // Not RESOURCE_EXHAUSTED, which matchmakers read as "none free".
            AllocationError::Overloaded(_) => {
                let mut status = Self::unavailable(message);
                let pushback = tonic::metadata::MetadataValue::from_static(RETRY_AFTER_MS);
                status.metadata_mut().insert(PUSHBACK, pushback);
                status
            }
            AllocationError::Write(err) => {
                Self::unknown(format!("{message}: {}", cluster::explain(&*err)))
            }
            AllocationError::NoPolicy(_) => Self::unknown(message),
            AllocationError::Remote { status, .. } => Self::new(status.code(), message),
        }
    }
}

/// Returns the HTTP status that gateways use for a gRPC code.
fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
