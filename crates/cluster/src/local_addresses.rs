//! The loopback addresses on which a service proxy of this machine serves the ports of a Service, as an annotation of the Service.
//!
//! A cluster IP is routed only inside of a cluster. On one machine the proxy listens on loopback instead, and the annotation tells
//! clients where.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Service;

/// The annotation of a Service with its loopback addresses, such as `80/TCP=127.96.0.7:80,53/UDP=127.96.0.7:53`.
pub const LOCAL_ADDRESSES_ANNOTATION: &str = "plimsoll.dev/local-addresses";

/// Loopback addresses by port and protocol of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses(BTreeMap<(u16, String), SocketAddr>);

impl LocalAddresses {
    /// Reads the annotation of a Service. Entries that are unreadable or not on loopback are skipped.
    pub fn from_service(service: &Service) -> Self {
        let annotations = service.metadata.annotations.as_ref();
        let text = annotations.and_then(|all| all.get(LOCAL_ADDRESSES_ANNOTATION));
        let entries = text.map(String::as_str).unwrap_or_default().split(',');
        Self(entries.filter_map(entry).filter(|(_, address)| address.ip().is_loopback()).collect())
    }

    /// Adds the address of a port.
    pub fn insert(&mut self, port: u16, protocol: &str, address: SocketAddr) {
        self.0.insert((port, protocol.to_owned()), address);
    }

    /// Returns the address of a port.
    pub fn get(&self, port: u16, protocol: &str) -> Option<SocketAddr> {
        self.0.get(&(port, protocol.to_owned())).copied()
    }

    /// Whether no port has an address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn entry(text: &str) -> Option<((u16, String), SocketAddr)> {
    let (port, address) = text.trim().split_once('=')?;
    let (port, protocol) = port.split_once('/')?;
    Some(((port.parse().ok()?, protocol.to_owned()), address.parse().ok()?))
}

impl fmt::Display for LocalAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ((port, protocol), address)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{port}/{protocol}={address}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_and_only_those_on_loopback_count() {
        let mut addresses = LocalAddresses::default();
        addresses.insert(80, "TCP", "127.96.0.7:80".parse().unwrap());
        addresses.insert(53, "UDP", "127.0.0.1:40001".parse().unwrap());
        let text = addresses.to_string();
        assert_eq!(text, "53/UDP=127.0.0.1:40001,80/TCP=127.96.0.7:80");
        let annotated = |text: String| {
            let mut service = Service::default();
            let annotation = (LOCAL_ADDRESSES_ANNOTATION.to_owned(), text);
            service.metadata.annotations = Some(BTreeMap::from([annotation]));
            LocalAddresses::from_service(&service)
        };
        assert_eq!(annotated(text), addresses);
        assert_eq!(addresses.get(53, "TCP"), None);
        assert!(annotated("80/TCP=10.0.0.1:80,x,1/TCP=,=127.0.0.1:1".to_owned()).is_empty());
    }
}
