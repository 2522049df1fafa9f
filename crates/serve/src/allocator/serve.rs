//! The listeners of an allocator.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use cluster::Caches;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use process::Supervisor;
use tokio::sync::watch;

use super::{Allocator, Settings, kubernetes, service};
use crate::listen::{self, Endpoint, ServeError};
use crate::tls::{
    self, CertificateFiles, CertificateSource, CertificateWatcher, TlsError, TlsMaterial,
};

/// The maximum size of a request body.
const BODY_LIMIT: usize = 1 << 20;

/// The ports of an allocator.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// gRPC and REST.
    pub matchmakers: Option<Endpoint>,
    /// The aggregated API, which only the API server may call.
    pub aggregated: Option<Endpoint>,
}

/// Serves all endpoints until `stop` is ready, and lets requests in progress finish. The caches have to follow [`super::REQUIRED_KINDS`].
pub async fn serve(
    client: Client,
    caches: Arc<Caches>,
    settings: Settings,
    endpoints: Endpoints,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut listeners = Vec::new();
    if let Some(endpoint) = endpoints.matchmakers {
        let certificates = endpoint.certificates(&settings.supervisor).await?;
        listeners.push((
            endpoint.listener,
            certificates,
            service::router as fn(Allocator) -> Router,
        ));
    }
    if let Some(endpoint) = endpoints.aggregated {
        let certificates = front_proxy(client.clone(), &endpoint, &settings.supervisor).await?;
        listeners.push((endpoint.listener, Some(certificates), aggregated_router));
    }
    let mut stop = std::pin::pin!(stop);
    let allocator = tokio::select! {
        allocator = Allocator::start(client, caches, settings) => allocator,
        () = &mut stop => return Ok(()),
    };
    let (stopping, is_stopping) = watch::channel(false);
    let serving = listeners.into_iter().map(|(listener, certificates, router)| {
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

/// Loads the certificates, and returns a future that serves gRPC and REST of a running allocator until it is dropped.
pub async fn serve_matchmakers(
    allocator: Allocator,
    endpoint: Endpoint,
) -> Result<impl Future<Output = ()> + Send + 'static, ServeError> {
    let certificates = endpoint.certificates(&allocator.shared.settings.supervisor).await?;
    let router = service::router(allocator);
    Ok(listen::serve(endpoint.listener, certificates, router, std::future::pending()))
}

/// Loads the certificates of the aggregated API, which accepts only the API server: its client certificate must be signed by the
/// authority that the cluster publishes.
async fn front_proxy(
    client: Client,
    endpoint: &Endpoint,
    supervisor: &Supervisor,
) -> Result<CertificateWatcher, ServeError> {
    let Some(files) = endpoint.tls.clone() else {
        return Err(ServeError::PlainText(endpoint.listener.local_addr()?));
    };
    let source: CertificateSource = Arc::new(move || {
        let (client, files) = (client.clone(), files.clone());
        Box::pin(async move {
            let (authority, allowed_names) = request_header_authority(client).await?;
            let files = CertificateFiles { client_ca: None, ..files };
            Ok(TlsMaterial {
                client_ca: Some(authority),
                allowed_names,
                ..tls::read_files(&files)?
            })
        })
    });
    let task = "watch of the API server's client certificates";
    Ok(CertificateWatcher::start(source, task, supervisor).await?)
}

/// Reads the authority of the API server's client certificates, and the allowed names.
async fn request_header_authority(client: Client) -> Result<(Vec<u8>, Vec<String>), TlsError> {
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

/// Returns the routes of the aggregated API.
pub fn aggregated_router(allocator: Allocator) -> Router {
    Router::new().fallback(handle_aggregated).with_state(allocator)
}

async fn handle_aggregated(State(allocator): State<Allocator>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = match http_body_util::Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => {
            let mut response =
                Response::new(Body::from("the request body is too large or incomplete"));
            *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
            return response;
        }
    };
    kubernetes::handle(&allocator, Request::from_parts(parts, body)).await.map(Body::from)
}
