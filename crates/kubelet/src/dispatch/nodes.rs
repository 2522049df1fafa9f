//! Tracks the kubelet's nodes: this machine, and nodes that are labelled as simulated.

use std::sync::Arc;
use std::time::Duration;

use cluster::Undecoded;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource as _;
use kube::runtime::watcher::Event;

use super::Dispatcher;
use super::pods::node_name;
use crate::node;
use crate::pod_task::{DesiredState, set_desired};
use crate::settings::SIMULATED_LABEL;

impl Dispatcher {
    /// Registers the node of this machine again, in the background.
    pub(super) fn register_local(&self) {
        let machine = Arc::clone(&self.machine);
        self.tasks.spawn(async move {
            let supervisor = machine.context.supervisor.clone();
            supervisor
                .complete("registration of this node", || node::register_local(&machine))
                .await;
        });
    }

    pub(super) fn node_event(&mut self, event: Event<Undecoded<Node>>) {
        match event {
            Event::Init => self.listed_nodes.clear(),
            Event::InitApply(node) => {
                self.listed_nodes.extend(node.meta().name.clone());
                self.node(node);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed_nodes);
                let gone = self.simulated.difference(&listed).cloned().collect::<Vec<_>>();
                gone.iter().for_each(|name| self.node_gone(name));
            }
            Event::Apply(node) => self.node(node),
            Event::Delete(node) => {
                let name = node.meta().name.as_deref().unwrap_or_default();
                if self.is_local(name) {
                    self.register_local();
                } else {
                    self.node_gone(name);
                }
            }
        }
    }

    /// Handles a new version of a node. Every node with the label is simulated.
    fn node(&mut self, node: Undecoded<Node>) {
        let Some(node) = node.decode() else { return };
        let name = node.metadata.name.clone().unwrap_or_default();
        let labels = node.metadata.labels.as_ref();
        if labels.is_none_or(|labels| labels.get(SIMULATED_LABEL).is_none_or(|v| v != "true")) {
            return self.node_gone(&name);
        }
        self.machine.set_node_address(&name, node::internal_ip(&node));
        if self.simulated.insert(name.clone()) {
            self.start_bound_before(&name);
        }
    }

    /// Handles a node that is not simulated, or not any more. Its pods end with it, as on a machine that is switched off.
    fn node_gone(&mut self, name: &str) {
        if self.simulated.remove(name) {
            self.machine.set_node_address(name, None);
            let on_it = self.running.values().filter(|running| running.node == name);
            on_it.for_each(|running| {
                set_desired(&running.desired, DesiredState::Deleted(Duration::ZERO));
            });
        }
    }

    /// Starts pods that were bound to a node before it was known.
    fn start_bound_before(&mut self, node: &str) {
        let bound = self.elsewhere.extract_if(.., |_, pod| node_name(pod) == node);
        let bound: Vec<Arc<Pod>> = bound.map(|(_, pod)| pod).collect();
        bound.into_iter().for_each(|pod| self.pod(pod));
    }
}
