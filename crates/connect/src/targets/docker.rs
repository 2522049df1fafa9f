//! Services of Docker: the containers of a compose service, or a service of swarm mode.

mod compose;
mod swarm;

use std::sync::Arc;

use api::plimsoll::scaling_policy::Docker;
use futures::future::BoxFuture;

use super::{Target, TargetError, TargetRef, TargetStatus, Version, read_error, source_error};
use crate::connection::ConnectionError;
use crate::docker_engine::DockerEngine;
use crate::endpoint::HttpAnswer;
use crate::metric_source::SharedConnection;
use crate::registry::Context;

struct DockerTarget {
    service: Docker,
    engine: SharedConnection<DockerEngine>,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let service = target.spec.docker.clone().unwrap_or_default();
    if service.service.is_empty() {
        return Err("service: required".to_owned());
    }
    let engine =
        SharedConnection::new(context, service.source.as_ref(), "docker", DockerEngine::open);
    Ok(Arc::new(DockerTarget { service, engine }))
}

impl Target for DockerTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let engine = self.engine().await?;
            match self.service.swarm {
                true => swarm::status(&engine, &self.service).await,
                false => compose::status(&engine, &self.service).await,
            }
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let engine = self.engine().await?;
            match self.service.swarm {
                true => swarm::scale(&engine, &self.service, to, version).await,
                false => compose::scale(&engine, &self.service, to, version).await,
            }
        })
    }
}

impl DockerTarget {
    async fn engine(&self) -> Result<Arc<DockerEngine>, TargetError> {
        self.engine.get().await.map_err(|err| source_error(&name(&self.service), err))
    }
}

/// Names a service in messages.
fn name(service: &Docker) -> String {
    match &service.project {
        Some(project) => format!("docker service {project}/{}", service.service),
        None => format!("docker service {}", service.service),
    }
}

fn refused(service: &Docker, message: impl Into<String>) -> TargetError {
    TargetError::Refused { target: name(service), message: message.into() }
}

/// A read that failed.
fn unread(service: &Docker) -> impl FnOnce(ConnectionError) -> TargetError {
    let target = name(service);
    move |err| read_error(&target, &err)
}

/// Returns the engine's message.
fn message(answer: &HttpAnswer) -> String {
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = body["message"].as_str().map(str::to_owned);
    text.unwrap_or_else(|| format!("the engine answered {}", answer.status))
}
