//! Finds the Services of the embedded engine, whose names no DNS server knows: the proxy of this machine writes into each Service where
//! it is reachable.

use std::net::SocketAddr;

use cluster::LocalAddresses;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use reqwest::Url;

use crate::call::CallError;

/// Resolves the names of Services through the API.
#[derive(Clone)]
pub(crate) struct ServiceResolver {
    client: Client,
}

impl ServiceResolver {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the address behind the name in a URL; `None`: it is not the name of a Service.
    pub(crate) async fn resolve(&self, url: &Url) -> Result<Option<SocketAddr>, CallError> {
        let (Some(host), Some(port)) = (url.domain(), url.port_or_known_default()) else {
            return Ok(None);
        };
        let Some(name) = ServiceName::parse(host) else { return Ok(None) };
        let failed = |problem: String| CallError::Service { url: url.clone(), problem };
        let services: Api<Service> = Api::namespaced(self.client.clone(), name.namespace);
        let service = services.get_opt(name.name).await;
        let service = service.map_err(|error| failed(cluster::error::api_message(&error)))?;
        let Some(service) = service else {
            // A short name may be that of a machine.
            let missing = format!("there is no Service {}/{}", name.namespace, name.name);
            return if name.is_qualified { Err(failed(missing)) } else { Ok(None) };
        };
        match LocalAddresses::from_service(&service).get(port, "TCP") {
            Some(address) => Ok(Some(address)),
            None => Err(failed(unreachable(&service, port))),
        }
    }
}

/// Returns why a port of a Service has no address.
fn unreachable(service: &Service, port: u16) -> String {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports: Vec<i32> = ports.map(|port| port.port).collect();
    if ports.contains(&i32::from(port)) {
        return "no proxy on this machine serves the Service; it needs a cluster IP".to_owned();
    }
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    format!("the Service has no port {port}; its ports are {}", ports.join(", "))
}

/// The name of a Service in a URL.
#[derive(Debug, PartialEq, Eq)]
struct ServiceName<'a> {
    name: &'a str,
    namespace: &'a str,
    /// Whether it can be nothing but the name of a Service.
    is_qualified: bool,
}

impl<'a> ServiceName<'a> {
    /// Reads `web`, `web.default`, `web.default.svc` or `web.default.svc.cluster.local`.
    fn parse(host: &'a str) -> Option<Self> {
        let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
        let (name, namespace, is_qualified) = match labels[..] {
            ["localhost"] => return None,
            [name] => (name, "default", false),
            [name, namespace] => (name, namespace, false),
            [name, namespace, "svc"] | [name, namespace, "svc", "cluster", "local"] => {
                (name, namespace, true)
            }
            _ => return None,
        };
        Some(Self { name, namespace, is_qualified })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_short_and_long_names() {
        for (host, expected) in [
            ("web", Some(("web", "default", false))),
            ("web.games", Some(("web", "games", false))),
            ("web.games.svc", Some(("web", "games", true))),
            ("web.games.svc.cluster.local", Some(("web", "games", true))),
            ("web.games.svc.cluster.local.", Some(("web", "games", true))),
            ("localhost", None),
            ("www.example.com", None),
        ] {
            let name = ServiceName::parse(host);
            let name = name.map(|name| (name.name, name.namespace, name.is_qualified));
            assert_eq!(name, expected, "{host}");
        }
    }
}
