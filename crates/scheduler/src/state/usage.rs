//! The sum of the requests of a node's pods.

use decide::nodes::{HostPort, Pod, PodSpec, Resources, Scheduling};

/// The sum of what the pods of one node request.
#[derive(Default)]
pub(crate) struct NodeUsage {
    pub(crate) pods: i64,
    pub(crate) requests: Resources,
    host_ports: Vec<HostPort>,
}

impl NodeUsage {
    pub(crate) fn add(&mut self, spec: &PodSpec) {
        self.pods += 1;
        self.add_requests(spec, 1);
        self.host_ports.extend(spec.host_ports.iter().cloned());
    }

    pub(crate) fn remove(&mut self, spec: &PodSpec) {
        self.pods -= 1;
        self.add_requests(spec, -1);
        for port in &spec.host_ports {
            if let Some(at) = self.host_ports.iter().position(|p| p == port) {
                self.host_ports.swap_remove(at);
            }
        }
    }

    /// Returns one pod that takes what all pods of the node take.
    pub(crate) fn as_pod(&self, node: &str) -> Pod {
        let spec = PodSpec {
            requests: self.requests.clone(),
            host_ports: self.host_ports.clone().into(),
            ..PodSpec::default()
        };
        Pod { spec: spec.into(), scheduling: Scheduling::On(node.into()), ..Pod::default() }
    }

    fn add_requests(&mut self, spec: &PodSpec, sign: i64) {
        for (name, amount) in spec.requests.iter() {
            self.requests.set(name, self.requests.get(name) + sign * amount);
        }
    }
}
