//! The ports of a game server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agones::is_zero;

/// A port that players, or others, connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GameServerPort {
    /// The name of the port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The named range of host ports to take one from: `default` unless given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub range: String,
    /// How the host port is chosen: `Dynamic` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_policy: Option<PortPolicy>,
    /// The container that listens: the game server's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The port that the process in the container listens on. Not allowed with `Passthrough`.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,
    /// The port on the node. Not allowed with `Dynamic` and `Passthrough`.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1, max = 65535))]
    pub host_port: i32,
    /// `UDP` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortProtocol>,
}

impl GameServerPort {
    /// Returns the policy, which is Dynamic where none is written.
    pub fn policy(&self) -> PortPolicy {
        self.port_policy.unwrap_or_default()
    }
}

/// How the host port is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PortPolicy {
    /// A free port of the range is taken.
    #[default]
    Dynamic,
    /// The port in `hostPort` is taken as it is.
    Static,
    /// A free port of the range is taken, and the container listens on the same one.
    Passthrough,
    /// There is no host port; players reach the container's port some other way.
    None,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PortProtocol {
    /// UDP.
    #[default]
    #[serde(rename = "UDP")]
    Udp,
    /// TCP.
    #[serde(rename = "TCP")]
    Tcp,
    /// Both, on the same number.
    #[serde(rename = "TCPUDP")]
    TcpUdp,
}
