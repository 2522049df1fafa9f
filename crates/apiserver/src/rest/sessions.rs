//! `pods/exec`, `pods/attach` and `pods/portforward`: sessions of clients in a pod, which the kubelet of its node serves.

use apimachinery::resource::Subresource;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::upgrade::OnUpgrade;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Call, Reply, logs};
use crate::node_proxy::NodeProxyError;
use crate::status::{ApiResult, Status};

/// The flags of a request, and the names that kubelets have for them.
const FLAGS: [(&str, &str); 4] =
    [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

/// Hands a connection over to the kubelet of a pod.
pub(super) async fn answer(
    call: &Call,
    subresource: Subresource,
    method: &Method,
    connection: Option<OnUpgrade>,
) -> ApiResult<Reply> {
    if !matches!(*method, Method::GET | Method::POST) {
        return Err(Status::method_not_allowed());
    }
    let pod = call.found()?;
    let path = kubelet_path(call, subresource, &pod)?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        let why = format!("pod {} does not have a host assigned", call.name());
        return Err(Status::bad_request(why));
    };
    let is_upgrade = call.headers.get(header::CONNECTION).and_then(|value| value.to_str().ok());
    if !is_upgrade.is_some_and(|value| value.to_ascii_lowercase().contains("upgrade")) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let Some(connection) = connection else {
        let why = "this connection cannot be upgraded: use HTTP/1.1 on a connection of its own";
        return Err(Status::bad_request(why));
    };
    let Some(proxy) = call.core.node_proxy() else {
        return Err(unreachable(&format!("dial tcp: lookup {node}: no such host")));
    };
    let mut request = Request::get(path).body(()).map_err(Status::internal)?;
    for name in [
        header::CONNECTION,
        header::UPGRADE,
        header::SEC_WEBSOCKET_KEY,
        header::SEC_WEBSOCKET_VERSION,
        header::SEC_WEBSOCKET_PROTOCOL,
    ] {
        let values = call.headers.get_all(&name).into_iter();
        request.headers_mut().extend(values.map(|value| (name.clone(), value.clone())));
    }
    request.extensions_mut().insert(connection);
    let opened = proxy.open_session(node, request).await.map_err(|error| match error {
        NodeProxyError::Unreachable(why) => unreachable(&why),
        NodeProxyError::Refused { code: 400, message } => Status::bad_request(message),
        NodeProxyError::Refused { code: 404, message } => Status::new(404, "NotFound", message),
        NodeProxyError::Refused { code: 429, message } => {
            Status::new(429, "TooManyRequests", message)
        }
        NodeProxyError::Refused { message, .. } => Status::internal(message),
    })?;
    Ok(opened.map(|()| Full::default().boxed_unsync()))
}

/// Returns the error of a kubelet that does not answer, as the real API server words it.
fn unreachable(why: &str) -> Box<Status> {
    Status::internal(format!("error dialing backend: {why}"))
}

/// Returns the path and query of the request to the kubelet.
fn kubelet_path(
    call: &Call,
    subresource: Subresource,
    pod: &serde_json::Value,
) -> ApiResult<String> {
    let namespace = call.namespace.as_deref().unwrap_or_default();
    let name = call.name();
    if subresource == Subresource::PortForward {
        return Ok(format!("/portForward/{namespace}/{name}"));
    }
    let kind = subresource.name();
    let container = logs::container(call, pod)?;
    let is_set = |flag: &str| call.query.flag(flag) == Some(true);
    let flags = FLAGS.into_iter().filter(|(flag, _)| is_set(flag));
    let flags = flags.map(|(_, name)| format!("{name}=1"));
    let command = call.query.all("command");
    let command =
        command.map(|word| format!("command={}", utf8_percent_encode(word, NON_ALPHANUMERIC)));
    let query: Vec<String> = flags.chain(command).collect();
    Ok(format!("/{kind}/{namespace}/{name}/{container}?{}", query.join("&")))
}
