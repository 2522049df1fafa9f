//! What those who run the controllers can choose.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use cluster::LeaderElection;
use process::{Clock, Random};

use crate::gates::FeatureGates;

/// How the controllers are set up.
#[derive(Clone, Debug)]
pub struct Settings {
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
    /// Leader election; `None`: this process is the only one.
    pub lease: Option<LeaderElection>,
    /// Where time comes from.
    pub clock: Clock,
    /// Where random numbers come from.
    pub random: Random,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            port_ranges: BTreeMap::from([("default".to_owned(), 7000..=8000)]),
            sidecar: Sidecar::default(),
            gates: FeatureGates::default(),
            concurrency: 64,
            parallel_writes: 64,
            lease: None,
            clock: Clock::system(),
            random: Random::system(),
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
