//! Programs in this process that run in place of the containers of certain images.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::logs::Log;
use crate::network::{PodNetwork, ProgramPort};
use crate::status::containers;
use crate::streams::Output;

/// A program that runs in this process instead of a container.
pub trait Program: Send + Sync {
    /// Lists the ports that the program listens on when it runs in place of this container.
    fn ports(&self, pod: &Pod, container: &Container) -> Vec<ProgramPort>;

    /// Runs the program, and returns its exit code. It has to return soon after [`ProgramContext::stop`] is cancelled, and is
    /// dropped when its grace period is over.
    fn run(&self, context: ProgramContext) -> BoxFuture<'static, i32>;
}

/// What a program runs with.
pub struct ProgramContext {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The container that the program runs in place of.
    pub container: Container,
    /// The environment, complete.
    pub env: BTreeMap<String, String>,
    /// `command` and `args`, with variables filled in.
    pub args: Vec<String>,
    /// Cancelled when the program has to stop.
    pub stop: CancellationToken,
    pub(crate) network: Arc<PodNetwork>,
    pub(crate) log: Arc<Log>,
}

impl ProgramContext {
    /// Listens on a port in the network of the pod. Where the pod uses the host's network, a port of [`Program::ports`] is
    /// replaced by a free one, which the other containers know by its variable.
    pub async fn listen_tcp(&self, port: u16) -> io::Result<TcpListener> {
        self.network.listen_tcp(port).await
    }

    /// Writes a line to the log of the container.
    pub fn log(&self, line: &str) {
        self.log.write(Output::Stdout(format!("{line}\n").into()));
    }
}

/// Programs by image.
#[derive(Clone, Default)]
pub struct Programs(BTreeMap<String, Arc<dyn Program>>);

impl Programs {
    /// Adds the program that runs in place of an image. An image without a tag matches every tag.
    pub fn add(&mut self, image: impl Into<String>, program: Arc<dyn Program>) {
        self.0.insert(image.into(), program);
    }

    /// Lists the ports of all programs of a pod.
    pub(crate) fn ports(&self, pod: &Pod) -> Vec<ProgramPort> {
        let ports = containers(pod).filter_map(|(_, container)| {
            let program = self.find(container.image.as_deref().unwrap_or_default())?;
            Some(program.ports(pod, container))
        });
        ports.flatten().collect()
    }

    /// Finds the program of an image.
    pub(crate) fn find(&self, image: &str) -> Option<&Arc<dyn Program>> {
        by_image(&self.0, image)
    }
}

/// Finds what an image is mapped to: by its whole name, by its name without tag and digest, or by the last part of that,
/// whatever its registry is.
pub(crate) fn by_image<'m, T>(map: &'m BTreeMap<String, T>, image: &str) -> Option<&'m T> {
    let without_digest = image.split('@').next().unwrap_or(image);
    let tag = without_digest.rfind(':').filter(|at| !without_digest[*at..].contains('/'));
    let bare = tag.map_or(without_digest, |at| &without_digest[..at]);
    let last = bare.rsplit('/').next().unwrap_or(bare);
    [image, without_digest, bare, last].into_iter().find_map(|name| map.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_whole_name_or_without_what_is_around_it() {
        let map: BTreeMap<String, u8> = [("host:5000/a", 1), ("host:5000/a:2", 2), ("b", 3)]
            .map(|(k, v)| (k.to_owned(), v))
            .into();
        for (image, found) in [
            ("host:5000/a", Some(&1)),
            ("host:5000/a:1", Some(&1)),
            ("host:5000/a:2", Some(&2)),
            ("host:5000/a:2@sha256:00", Some(&2)),
            ("host", None),
            ("elsewhere/b:3", Some(&3)),
            ("a", None),
        ] {
            assert_eq!(by_image(&map, image), found, "{image}");
        }
    }
}
