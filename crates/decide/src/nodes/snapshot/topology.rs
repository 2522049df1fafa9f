//! The domain (host, zone, …) of each node, for every topology key in use.

use std::collections::BTreeMap;

use super::NodeId;
use crate::nodes::HOSTNAME_LABEL;

/// The domain of a node without the key.
pub(in crate::nodes) const NO_DOMAIN: u32 = u32::MAX;

/// The topology keys in use and the domain of every node, all by index.
#[derive(Default)]
pub(in crate::nodes) struct Topologies(Vec<Topology>);

struct Topology {
    key: Box<str>,
    domains: BTreeMap<Box<str>, u32>,
    of_node: Vec<u32>,
}

impl Topologies {
    /// Returns the index of a key.
    pub(super) fn number(&mut self, key: &str) -> usize {
        self.0.iter().position(|topology| &*topology.key == key).unwrap_or_else(|| {
            self.0.push(Topology {
                key: key.into(),
                domains: BTreeMap::new(),
                of_node: Vec::new(),
            });
            self.0.len() - 1
        })
    }

    pub(in crate::nodes) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::nodes) fn key(&self, topology: usize) -> &str {
        &self.0[topology].key
    }

    /// Returns whether every node is a domain of its own.
    pub(in crate::nodes) fn is_hostname(&self, topology: usize) -> bool {
        &*self.0[topology].key == HOSTNAME_LABEL
    }

    /// Returns the domain of a node.
    pub(in crate::nodes) fn domain(&self, topology: usize, node: NodeId) -> u32 {
        self.0[topology].of_node[node]
    }

    /// Returns the index of a domain by its name, adding it if it is new.
    pub(in crate::nodes) fn named(&mut self, topology: usize, value: &str) -> u32 {
        let domains = &mut self.0[topology].domains;
        if let Some(domain) = domains.get(value) {
            return *domain;
        }
        let domain = u32::try_from(domains.len()).expect("fewer than four billion domains");
        domains.insert(value.into(), domain);
        domain
    }

    pub(super) fn push_node<'n>(&mut self, label: impl Fn(&str) -> Option<&'n str>) {
        for topology in 0..self.0.len() {
            let value = label(&self.0[topology].key);
            let domain = value.map_or(NO_DOMAIN, |value| self.named(topology, value));
            self.0[topology].of_node.push(domain);
        }
    }

    pub(super) fn pop_node(&mut self) {
        for topology in &mut self.0 {
            topology.of_node.pop();
        }
    }
}
