//! Reserves the game server, also without an end, which the published client for Rust cannot ask for.

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::span::Span;

/// The message `agones.dev.sdk.Duration`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// Where the SDK server listens, as its clients know it.
fn endpoint() -> String {
    let port = std::env::var("AGONES_SDK_GRPC_PORT").unwrap_or_else(|_| "9357".to_owned());
    format!("http://localhost:{port}")
}

/// Reserves for whole seconds; a span under one second means without an end.
pub(crate) async fn reserve(span: Span) -> Result<(), String> {
    let channel = Endpoint::from_shared(endpoint()).map_err(|err| err.to_string())?.connect_lazy();
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|err| err.to_string())?;
    let request = tonic::Request::new(Seconds { seconds: span.whole_seconds() });
    let path = PathAndQuery::from_static("/agones.dev.sdk.SDK/Reserve");
    let codec = ProstCodec::<Seconds, ()>::default();
    client.unary(request, path, codec).await.map_err(|status| status.message().to_owned())?;
    Ok(())
}
