//! What those who run the controllers can choose.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use process::Clock;

use crate::gates::FeatureGates;

/// How the controllers are set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one namespace to look after; `None`: all.
    pub namespace: Option<String>,
    /// The host ports to give out, by the name of the range. `default` is the one for ports that name none.
    pub port_ranges: BTreeMap<String, RangeInclusive<u16>>,
    /// The SDK server beside each game server.
    pub sidecar: Sidecar,
    /// What `FEATURE_GATES` said.
    pub gates: FeatureGates,
    /// The most objects of a kind that are worked on at a time.
    pub concurrency: usize,
    /// The most writes that one turn has under way.
    pub parallel_writes: usize,
    /// How one of several controllers is chosen; `None`: there is only this one.
    pub lease: Option<Lease>,
    /// Where time comes from.
    pub clock: Clock,
}

/// The container of the SDK server.
#[derive(Clone, Debug)]
pub struct Sidecar {
    /// Its image.
    pub image: String,
    /// What its arguments begin with.
    pub args: Vec<String>,
    /// The service account of pods that name none.
    pub service_account: String,
    /// How long it waits between two writes of one kind: `REQUESTS_RATE_LIMIT`.
    pub requests_rate_limit: String,
    /// `resources` of the container, as Kubernetes writes them; null for none.
    pub resources: serde_json::Value,
}

/// How one of several controllers is chosen.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; no two may be the same.
    pub identity: String,
    /// How long the others wait for one that fell silent.
    pub duration: Duration,
    /// How long the active one tries to renew before it gives up. Less than `duration`.
    pub renew_within: Duration,
    /// How long to wait between two tries.
    pub retry_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            port_ranges: BTreeMap::from([("default".to_owned(), 7000..=8000)]),
            sidecar: Sidecar::default(),
            gates: FeatureGates::default(),
            concurrency: 64,
            parallel_writes: 64,
            lease: None,
            clock: Clock::system(),
        }
    }
}

impl Default for Sidecar {
    fn default() -> Self {
        Self {
            image: "plimsoll.dev/sdk-server".to_owned(),
            args: vec!["sdk-server".to_owned()],
            service_account: "agones-sdk".to_owned(),
            requests_rate_limit: "500ms".to_owned(),
            resources: serde_json::Value::Null,
        }
    }
}

impl Lease {
    /// Makes an identity that no other process has: the name of the host, for whoever reads the Lease, and a random part, since hosts and
    /// containers share names.
    pub fn unique_identity() -> String {
        let uname = rustix::system::uname();
        format!("{}_{}", uname.nodename().to_string_lossy(), uuid::Uuid::new_v4())
    }

    /// Gives upstream's times: 15 s, 10 s and 2 s. The name is our own, so that an installation of Agones beside us is not kept from
    /// its work, nor we from ours.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: "plimsoll-controller-lock".to_owned(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            retry_every: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_a_host_have_different_identities() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (one, two) = (Lease::unique_identity(), Lease::unique_identity());
        assert!(one.starts_with(&host), "{one}");
        assert_ne!(one, two);
    }
}
