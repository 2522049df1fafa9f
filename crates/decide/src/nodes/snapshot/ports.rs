//! Host port conflicts.

use super::classes::Classes;
use super::hash::{Distinct, hash};
use crate::nodes::HostPort;

/// The distinct host ports, by index.
#[derive(Default)]
pub(super) struct Ports(Vec<HostPort>);

impl Ports {
    /// Indexes the ports of all classes, and stores the indices in the classes.
    pub(super) fn new(classes: &mut Classes) -> Self {
        let (mut distinct, mut all) = (Distinct::default(), Vec::<HostPort>::new());
        for class in classes.iter_mut() {
            let number = |port: &HostPort| {
                let (number, is_new) = distinct.number(hash(port), |n| all[n] == *port);
                if is_new {
                    all.push(port.clone());
                }
                u32::try_from(number).expect("fewer than four billion ports")
            };
            class.ports = class.spec.host_ports.iter().map(number).collect();
        }
        Self(all)
    }

    /// Returns a port that conflicts with one of those taken.
    pub(super) fn clash(&self, wanted: &[u32], taken: &[u32]) -> Option<u16> {
        let clashes = |a: u32| taken.iter().any(|b| self.clash_of(a, *b));
        wanted.iter().copied().find(|port| clashes(*port)).map(|port| self.0[port as usize].port)
    }

    fn clash_of(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.0[a as usize], &self.0[b as usize]);
        let every = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
        a.port == b.port
            && a.protocol == b.protocol
            && (a.ip == b.ip || every(&a.ip) || every(&b.ip))
    }
}
