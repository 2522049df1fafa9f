//! `pods/log`: the output of a container, read from the kubelet of its node.

use api::PodLogOptions;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::Value;

use super::{Call, Reply, form};
use crate::node_proxy::{ContainerAddress, NodeProxyError};
use crate::status::{ApiResult, Status};

/// Answers with a log, as it is or as it grows.
pub(super) async fn answer(call: &Call) -> ApiResult<Reply> {
    let pod = call.found()?;
    let container = container(call, &pod)?;
    let options = options(call)?;
    let mut reply = form::text(200, Bytes::new());
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        // Nothing has run yet.
        return Ok(reply);
    };
    let address = ContainerAddress {
        node: node.to_owned(),
        namespace: call.namespace.clone().unwrap_or_default(),
        pod: call.name().to_owned(),
        container,
    };
    let Some(proxy) = call.core.node_proxy() else {
        return Err(unreachable(&address, &format!("dial tcp: lookup {node}: no such host")));
    };
    let stream =
        proxy.container_logs(address.clone(), options).await.map_err(|error| match error {
            NodeProxyError::Unreachable(why) => unreachable(&address, &why),
            NodeProxyError::Refused { code: 400, message } => Status::bad_request(message),
            NodeProxyError::Refused { code: 404, message } => Status::new(404, "NotFound", message),
            NodeProxyError::Refused { message, .. } => Status::internal(message),
        })?;
    let mut stopping = call.core.stopping();
    let stopped = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let frames = stream.take_until(Box::pin(stopped)).map(|chunk| Ok(Frame::data(chunk)));
    *reply.body_mut() = StreamBody::new(frames).boxed_unsync();
    Ok(reply)
}

/// Returns the error of a kubelet that does not answer, as the real API server words it.
fn unreachable(address: &ContainerAddress, why: &str) -> Box<Status> {
    let ContainerAddress { node, namespace, pod, container } = address;
    let url = format!("https://{node}:10250/containerLogs/{namespace}/{pod}/{container}");
    Status::internal(format!("Get \"{url}\": {why}"))
}

fn options(call: &Call) -> ApiResult<PodLogOptions> {
    let number = |key: &str| -> ApiResult<Option<usize>> {
        Ok(call.query.number(key)?.and_then(|number| usize::try_from(number).ok()))
    };
    let flag = |key: &str| call.query.flag(key) == Some(true);
    Ok(PodLogOptions {
        follow: flag("follow"),
        previous: flag("previous"),
        since_seconds: call.query.number("sinceSeconds")?,
        since_time: call.query.get("sinceTime").and_then(|time| time.parse().ok()),
        timestamps: flag("timestamps"),
        tail_lines: number("tailLines")?,
        limit_bytes: number("limitBytes")?,
    })
}

/// Returns the name of the container that a request means.
pub(super) fn container(call: &Call, pod: &Value) -> ApiResult<String> {
    let names = |list: &str| -> Vec<String> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    match (call.query.get("container"), &main[..]) {
        (Some(requested), _) if main.iter().chain(&init).any(|name| name == requested) => {
            Ok(requested.to_owned())
        }
        (Some(requested), _) => Err(Status::bad_request(format!(
            "container {requested} is not valid for pod {}",
            call.name()
        ))),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let of_init = match &init[..] {
                [] => String::new(),
                init => format!(" or one of the init containers: [{}]", init.join(" ")),
            };
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]{of_init}",
                call.name(),
                main.join(" ")
            )))
        }
    }
}
