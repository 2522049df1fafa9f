//! How does an allocator run on its own, beside a cluster?

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use process::Supervisor;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Allocator, Settings, doors, kubernetes};
use crate::listen;
use crate::tls::{self, Certificates, Material, Source, TlsError};

/// The longest allocation that is read.
const BODY_LIMIT: usize = 1 << 20;

/// Where callers knock.
#[derive(Debug)]
pub struct Door {
    /// A port that is listened on.
    pub listener: TcpListener,
    /// The certificates; without them calls are in plain text, which only a loopback address allows.
    pub tls: Option<tls::Files>,
    /// Whether callers without a certificate are let in, beyond a loopback address.
    pub anyone: bool,
}

/// The doors of an allocator.
#[derive(Debug, Default)]
pub struct Doors {
    /// gRPC and REST.
    pub matchmakers: Option<Door>,
    /// The aggregated API: its callers are the API server and nobody else.
    pub aggregated: Option<Door>,
}

/// Why an allocator does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Plain text beyond this machine.
    #[error("{0} can be reached from other machines: expected a certificate and its key")]
    PlainText(SocketAddr),
    /// Strangers from beyond this machine.
    #[error(
        "{0} can be reached from other machines: expected the authority of those who may call, or leave to let anyone in"
    )]
    Strangers(SocketAddr),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The port is gone.
    #[error("could not use a port")]
    Port(#[from] std::io::Error),
}

/// Answers at all doors until `stop` happens, and lets what is under way finish.
pub async fn serve(
    client: Client,
    settings: Settings,
    doors: Doors,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut open = Vec::new();
    if let Some(door) = doors.matchmakers {
        let certificates = certificates(&door, &settings.supervisor).await?;
        open.push((door.listener, certificates, doors::router as fn(Allocator) -> Router));
    }
    if let Some(door) = doors.aggregated {
        let certificates = front_proxy(client.clone(), &door, &settings.supervisor).await?;
        open.push((door.listener, Some(certificates), aggregated));
    }
    let mut stop = std::pin::pin!(stop);
    let allocator = tokio::select! {
        allocator = Allocator::start(client, settings) => allocator,
        () = &mut stop => return Ok(()),
    };
    let (stopping, is_stopping) = watch::channel(false);
    let serving = open.into_iter().map(|(listener, certificates, router)| {
        let mut is_stopping = is_stopping.clone();
        let stop = async move {
            let _ = is_stopping.wait_for(|stop| *stop).await;
        };
        listen::serve(listener, certificates, router(allocator.clone()), stop)
    });
    let serving = futures::future::join_all(serving);
    let stop = async {
        stop.await;
        stopping.send_replace(true);
    };
    tokio::join!(serving, stop);
    Ok(())
}

/// Serves gRPC and REST of an allocator that runs already, until the returned future is dropped. Certificates are checked before that.
pub async fn matchmakers(
    allocator: Allocator,
    door: Door,
) -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    let certificates = certificates(&door, &allocator.shared.settings.supervisor).await?;
    let router = doors::router(allocator);
    Ok(listen::serve(door.listener, certificates, router, std::future::pending()))
}

/// Checks that a door is as closed as its address asks for.
async fn certificates(
    door: &Door,
    supervisor: &Supervisor,
) -> Result<Option<Certificates>, ServeError> {
    let address = door.listener.local_addr()?;
    let is_loopback = address.ip().is_loopback();
    match &door.tls {
        None if is_loopback => Ok(None),
        None => Err(ServeError::PlainText(address)),
        Some(files) if files.callers.is_none() && !is_loopback && !door.anyone => {
            Err(ServeError::Strangers(address))
        }
        Some(files) => Ok(Some(Certificates::of_files(files.clone(), supervisor).await?)),
    }
}

/// Lets in the API server alone: it shows a certificate of the authority that the cluster publishes for this.
async fn front_proxy(
    client: Client,
    door: &Door,
    supervisor: &Supervisor,
) -> Result<Certificates, ServeError> {
    let Some(files) = door.tls.clone() else {
        return Err(ServeError::PlainText(door.listener.local_addr()?));
    };
    let source: Source = Arc::new(move || {
        let (client, files) = (client.clone(), files.clone());
        Box::pin(async move {
            let (authority, names) = published(client).await?;
            let files = tls::Files { callers: None, ..files };
            Ok(Material { callers: Some(authority), names, ..tls::read(&files)? })
        })
    });
    let task = "watch of the API server's client certificates";
    Ok(Certificates::follow(source, task, supervisor).await?)
}

/// Reads who vouches for the API server, and under which names it calls.
async fn published(client: Client) -> Result<(Vec<u8>, Vec<String>), TlsError> {
    const NAME: &str = "extension-apiserver-authentication";
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    let found = maps.get(NAME).await.map_err(|err| TlsError::Api(cluster::explain(&err)))?;
    let data = found.data.unwrap_or_default();
    let authority = data.get("requestheader-client-ca-file").ok_or_else(|| {
        TlsError::Api(format!("{NAME} in kube-system has no requestheader-client-ca-file"))
    })?;
    let names = data.get("requestheader-allowed-names").map_or("[]", String::as_str);
    let names = serde_json::from_str(names)
        .map_err(|err| TlsError::Api(format!("requestheader-allowed-names in {NAME}: {err}")))?;
    Ok((authority.clone().into_bytes(), names))
}

/// Gives the aggregated API as a router.
pub fn aggregated(allocator: Allocator) -> Router {
    Router::new().fallback(pass_on).with_state(allocator)
}

async fn pass_on(State(allocator): State<Allocator>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match http_body_util::Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let mut refused = Response::new(Body::from("the body is too long, or broke off"));
            *refused.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
            return refused;
        }
    };
    kubernetes::answer(&allocator, Request::from_parts(parts, body)).await.map(Body::from)
}
