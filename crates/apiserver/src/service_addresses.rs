//! The cluster IPs and node ports of Services.
//!
//! They are unique. A lock is held from the assignment until the Service is stored, so that the store is the only record of
//! allocations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::status::{ApiResult, Status};
use crate::store::{Expired, Object, Store};
use apimachinery::builtin::field::{FieldError, Path};

const COLLECTION: &str = "services";
/// The number of cluster IPs: 10.96.0.0/12 without addresses that end in 0 or 255.
const ADDRESSES: u32 = 16 * 256 * 254;
const FIRST_PORT: u32 = 30_000;
const PORTS: u32 = 2768;

/// The cluster IPs and node ports in use.
#[derive(Default)]
pub(crate) struct ServiceAddresses {
    assigning: Arc<tokio::sync::Mutex<()>>,
    allocations: Mutex<Allocations>,
}

/// The lock under which addresses are assigned.
pub(crate) type AssignmentLock = tokio::sync::OwnedMutexGuard<()>;

impl ServiceAddresses {
    /// Acquires the assignment lock.
    pub(crate) async fn lock(&self) -> AssignmentLock {
        Arc::clone(&self.assigning).lock_owned().await
    }

    /// Returns an error for each address and port in `spec` that belongs to a Service other than `key`.
    pub(crate) fn conflicts(&self, store: &Store, key: &str, spec: &Value) -> Vec<FieldError> {
        let allocations = self.allocations(store);
        let mut conflicts = allocations.address_conflicts(key, spec);
        conflicts.extend(allocations.port_conflicts(key, spec));
        conflicts
    }

    /// Assigns the addresses and node ports that `spec` leaves open. The search for free ones starts at a hash of `uid`.
    pub(crate) fn assign(&self, store: &Store, uid: &str, spec: &mut Value) -> ApiResult<()> {
        let (allocations, seed) = (self.allocations(store), seed(uid));
        if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
            let free = find_free(seed, ADDRESSES, |n| {
                Some(address(n)).filter(|a| !allocations.ips.contains_key(a))
            });
            let full = || Status::internal("failed to allocate a serviceIP: range is full");
            spec["clusterIP"] = free.ok_or_else(full)?.into();
        }
        let first = spec["clusterIP"].clone();
        set_default(spec, "clusterIPs", json!([first]));
        set_default(spec, "ipFamilies", json!(["IPv4"]));
        set_default(spec, "ipFamilyPolicy", "SingleStack".into());
        let has_node_ports = spec["type"] == "NodePort"
            || (spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false);
        if has_node_ports {
            allocations.assign_ports(spec, seed)?;
        }
        Ok(())
    }

    /// Returns the current allocations.
    fn allocations(&self, store: &Store) -> MutexGuard<'_, Allocations> {
        let mut allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        allocations.refresh(store);
        allocations
    }
}

fn set_default(spec: &mut Value, field: &str, value: Value) {
    if spec[field].is_null() {
        spec[field] = value;
    }
}

/// Hashes a uid to the start of the search for a free address.
fn seed(uid: &str) -> u32 {
    uid.bytes().fold(17, |seed: u32, byte| seed.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

fn address(n: u32) -> String {
    format!("10.{}.{}.{}", 96 + n / (256 * 254), n / 254 % 256, 1 + n % 254)
}

/// Returns the first free one of `total` numbers, searching from `start` and wrapping around.
fn find_free<T>(start: u32, total: u32, is_free: impl Fn(u32) -> Option<T>) -> Option<T> {
    let start = start % total;
    (start..total).chain(0..start).find_map(is_free)
}

/// Cluster IPs and node ports with the keys of their Services.
#[derive(Default)]
struct Allocations {
    version: u64,
    ips: HashMap<String, Arc<str>>,
    ports: HashMap<u32, Arc<str>>,
    by_service: HashMap<Arc<str>, (Vec<String>, Vec<u32>)>,
}

impl Allocations {
    /// Applies the changes of Services since the last refresh.
    fn refresh(&mut self, store: &Store) {
        match store.changes(COLLECTION, self.version, usize::MAX, usize::MAX) {
            Ok((changes, reached)) => {
                for change in changes {
                    self.remove(&change.key);
                    if !change.deleted {
                        self.insert(&change.key, &change.object);
                    }
                }
                self.version = reached;
            }
            Err(Expired) => {
                *self = Self::default();
                let Ok(page) = store.list(COLLECTION, "", None, usize::MAX, None) else { return };
                page.items.iter().for_each(|(key, service)| self.insert(key, service));
                self.version = page.version;
            }
        }
    }

    fn insert(&mut self, key: &Arc<str>, service: &Object) {
        // An unreadable Service is not used by anything.
        let Ok(service) = service.value("v1", "Service") else { return };
        let (ips, ports) = (ips(&service["spec"]), node_ports(&service["spec"]));
        let ports: Vec<u32> = ports.map(|(_, port)| port).collect();
        // Earlier versions allowed duplicates: the first Service keeps the address.
        for ip in &ips {
            self.ips.entry(ip.clone()).or_insert_with(|| Arc::clone(key));
        }
        for port in &ports {
            self.ports.entry(*port).or_insert_with(|| Arc::clone(key));
        }
        self.by_service.insert(Arc::clone(key), (ips, ports));
    }

    fn remove(&mut self, key: &str) {
        let (ips, ports) = self.by_service.remove(key).unwrap_or_default();
        let is_owner = |owner: Option<&Arc<str>>| owner.is_some_and(|owner| **owner == *key);
        for ip in ips {
            if is_owner(self.ips.get(&ip)) {
                self.ips.remove(&ip);
            }
        }
        for port in ports {
            if is_owner(self.ports.get(&port)) {
                self.ports.remove(&port);
            }
        }
    }

    /// Returns an error for each requested cluster IP that belongs to another Service.
    fn address_conflicts(&self, key: &str, spec: &Value) -> Vec<FieldError> {
        let owned = self.by_service.get(key).map(|(ips, _)| ips.as_slice()).unwrap_or_default();
        let is_taken = |ip: &String| !owned.contains(ip) && self.ips.contains_key(ip);
        let conflict = |ip: String| {
            let why = format!("failed to allocate IP {ip}: provided IP is already allocated");
            Path::new("spec.clusterIPs").invalid(&json!(ips(spec)), why)
        };
        ips(spec).into_iter().filter(is_taken).map(conflict).collect()
    }

    /// Returns an error for each requested node port that belongs to another Service.
    fn port_conflicts(&self, key: &str, spec: &Value) -> Vec<FieldError> {
        let owned = self.by_service.get(key).map(|(_, ports)| ports.as_slice()).unwrap_or_default();
        let conflict = |(index, port): (usize, u32)| {
            let path = Path::new("spec.ports").index(index).child("nodePort");
            path.invalid(&port.into(), "provided port is already allocated")
        };
        let is_taken =
            |(_, port): &(usize, u32)| !owned.contains(port) && self.ports.contains_key(port);
        node_ports(spec).filter(is_taken).map(conflict).collect()
    }

    fn assign_ports(&self, spec: &mut Value, mut seed: u32) -> ApiResult<()> {
        let mut assigned: Vec<u32> = node_ports(spec).map(|(_, port)| port).collect();
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            if port["nodePort"].as_u64().is_some_and(|port| port != 0) {
                continue;
            }
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let is_free = |n| {
                let port = FIRST_PORT + n;
                let is_free = !self.ports.contains_key(&port) && !assigned.contains(&port);
                is_free.then_some(port)
            };
            let full = || Status::internal("failed to allocate a nodePort: range is full");
            let free = find_free(seed >> 8, PORTS, is_free).ok_or_else(full)?;
            assigned.push(free);
            port["nodePort"] = free.into();
        }
        Ok(())
    }
}

/// Returns the cluster IPs of a Service.
fn ips(spec: &Value) -> Vec<String> {
    let first = spec["clusterIP"].as_str();
    let all = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut ips: Vec<String> = first.into_iter().chain(all).map(str::to_owned).collect();
    ips.retain(|ip| !ip.is_empty() && ip != "None");
    ips.sort_unstable();
    ips.dedup();
    ips
}

/// Returns the node ports of a Service with the indexes of their ports.
fn node_ports(spec: &Value) -> impl Iterator<Item = (usize, u32)> + '_ {
    let ports = spec["ports"].as_array().into_iter().flatten().enumerate();
    let number = |port: &Value| u32::try_from(port["nodePort"].as_u64()?).ok().filter(|n| *n > 0);
    ports.filter_map(move |(index, port)| Some((index, number(port)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_for_a_free_number_wraps_around_and_ends() {
        for (start, is_free, found) in [
            (3, vec![5], Some(5)),
            (7, vec![5], Some(5)),
            (15, vec![5, 2], Some(5)),
            (0, vec![], None),
        ] {
            let pick = |n| is_free.contains(&n).then_some(n);
            assert_eq!(find_free(start, 10, pick), found, "from {start} among {is_free:?}");
        }
    }

    #[test]
    fn numbers_map_to_distinct_addresses() {
        assert_eq!(address(0), "10.96.0.1");
        assert_eq!(address(253), "10.96.0.254");
        assert_eq!(address(254), "10.96.1.1");
        assert_eq!(address(ADDRESSES - 1), "10.111.255.254");
    }
}
