//! A client that allocates game servers, through one of the protocols.

use anyhow::{Context as _, ensure};
use api::allocation::{AllocationState, GameServerAllocation};
use bytes::Bytes;
use clap::ValueEnum;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::json;
use serve::allocator::Allocator;
use serve::proto::allocation::allocation_service_client::AllocationServiceClient;
use serve::proto::allocation::{AllocationRequest, GameServerSelector};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

use crate::fleets::FLEET;

/// The protocol of allocation requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// A call in the allocator's process
    Process,
    Grpc,
    Rest,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process => "in process",
            Self::Grpc => "gRPC",
            Self::Rest => "REST",
        }
    }
}

/// One client.
pub(super) enum AllocationClient {
    Process(Allocator, Box<GameServerAllocation>),
    Grpc(AllocationServiceClient<Channel>),
    Rest(SendRequest<Full<Bytes>>),
}

impl AllocationClient {
    pub(super) fn in_process(allocator: &Allocator) -> anyhow::Result<Self> {
        let allocation = json!({
            "apiVersion": "allocation.agones.dev/v1", "kind": "GameServerAllocation", "metadata": {"namespace": "default"},
            "spec": {"selectors": [{"matchLabels": {api::agones::FLEET_LABEL: FLEET}}]},
        });
        let allocation: GameServerAllocation = serde_json::from_value(allocation)?;
        let settled = allocation.settled();
        let allocation = settled.map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
        Ok(Self::Process(allocator.clone(), Box::new(allocation)))
    }

    pub(super) async fn connect(protocol: Protocol, port: u16) -> anyhow::Result<Self> {
        if protocol == Protocol::Grpc {
            let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
            let channel = endpoint.tcp_nodelay(true).connect().await?;
            return Ok(Self::Grpc(AllocationServiceClient::new(channel)));
        }
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self::Rest(sender))
    }

    /// Asks for one server, which there must be.
    pub(super) async fn allocate(self) -> anyhow::Result<Self> {
        match self {
            Self::Process(allocator, allocation) => {
                let answer = allocator.allocate(&allocation).await?;
                ensure!(answer.state == AllocationState::Allocated, "{:?}", answer.state);
                Ok(Self::Process(allocator, allocation))
            }
            Self::Grpc(mut client) => {
                let labels = [(api::agones::FLEET_LABEL.to_owned(), FLEET.to_owned())].into();
                let selector = GameServerSelector { match_labels: labels, ..Default::default() };
                let request = AllocationRequest {
                    namespace: "default".to_owned(),
                    game_server_selectors: vec![selector],
                    ..AllocationRequest::default()
                };
                client.allocate(request).await.context("gRPC")?;
                Ok(Self::Grpc(client))
            }
            Self::Rest(mut sender) => {
                let selector = json!({"matchLabels": {api::agones::FLEET_LABEL: FLEET}});
                let body = json!({"namespace": "default", "gameServerSelectors": [selector]});
                let request = Request::post("/gameserverallocation")
                    .header(header::HOST, "localhost")
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Full::new(Bytes::from(body.to_string())))?;
                sender.ready().await?;
                let answer = sender.send_request(request).await?;
                ensure!(answer.status().is_success(), "REST: {}", answer.status());
                answer.into_body().collect().await?;
                Ok(Self::Rest(sender))
            }
        }
    }
}
