//! The reasons why a pod does not fit on a node, or a group does not help it.

use std::fmt;

use crate::Reason;

/// The reason for a rejection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Unschedulable,
    /// The taint, as `key=value:effect`.
    TaintNotTolerated(Box<str>),
    NodeSelectorMismatch,
    HostPortTaken(u16),
    TooManyPods,
    InsufficientCpu,
    InsufficientMemory,
    InsufficientResource(Box<str>),
    VolumeLimit(Box<str>),
    VolumeZone(Box<str>),
    /// The topology key.
    TopologySpread(Box<str>),
    /// The topology key.
    PodAffinity(Box<str>),
    /// The topology key.
    PodAntiAffinity(Box<str>),
    /// The group is at its maximum.
    AtMaxSize(u32),
    /// The limited resource of the cluster.
    LimitReached(Box<str>),
    BackedOff,
    Unhealthy,
    /// Too many nodes of the cluster are not ready.
    ClusterUnhealthy,
    NoTemplate,
    /// A new node would take the pod, but no plan for it was found.
    NotPlanned,
}

impl Reason for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::TaintNotTolerated(_) => "TaintNotTolerated",
            Self::NodeSelectorMismatch => "NodeSelectorMismatch",
            Self::HostPortTaken(_) => "HostPortTaken",
            Self::TooManyPods => "TooManyPods",
            Self::InsufficientCpu => "InsufficientCpu",
            Self::InsufficientMemory => "InsufficientMemory",
            Self::InsufficientResource(_) => "InsufficientResource",
            Self::VolumeLimit(_) => "VolumeLimit",
            Self::VolumeZone(_) => "VolumeZone",
            Self::TopologySpread(_) => "TopologySpread",
            Self::PodAffinity(_) => "PodAffinity",
            Self::PodAntiAffinity(_) => "PodAntiAffinity",
            Self::AtMaxSize(_) => "AtMaxSize",
            Self::LimitReached(_) => "LimitReached",
            Self::BackedOff => "BackedOff",
            Self::Unhealthy => "Unhealthy",
            Self::ClusterUnhealthy => "ClusterUnhealthy",
            Self::NoTemplate => "NoTemplate",
            Self::NotPlanned => "NotPlanned",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => write!(f, "the node is cordoned"),
            Self::TaintNotTolerated(taint) => {
                write!(f, "the pod does not tolerate the taint {taint}")
            }
            Self::NodeSelectorMismatch => {
                write!(f, "the pod's node selector or affinity does not match")
            }
            Self::HostPortTaken(port) => write!(f, "host port {port} is taken"),
            Self::TooManyPods => write!(f, "the node has its maximum number of pods"),
            Self::InsufficientCpu => write!(f, "not enough cpu"),
            Self::InsufficientMemory => write!(f, "not enough memory"),
            Self::InsufficientResource(name) => write!(f, "not enough {name}"),
            Self::VolumeLimit(driver) => {
                write!(f, "the node cannot attach more volumes of {driver}")
            }
            Self::VolumeZone(volume) => write!(f, "volume {volume} is not accessible from there"),
            Self::TopologySpread(key) => {
                write!(f, "the pod's topology spread over {key} would exceed its max skew")
            }
            Self::PodAffinity(key) => {
                write!(f, "no pod that matches its affinity has the same {key}")
            }
            Self::PodAntiAffinity(key) => {
                write!(f, "a pod that matches its anti-affinity has the same {key}")
            }
            Self::AtMaxSize(max) => write!(f, "the group is at its maximum of {max}"),
            Self::LimitReached(what) => write!(f, "the cluster's limit on {what} is reached"),
            Self::BackedOff => write!(f, "the group failed recently and is backing off"),
            Self::Unhealthy => write!(f, "too many of the group's nodes are missing or not ready"),
            Self::ClusterUnhealthy => {
                write!(f, "too many nodes of the cluster are not ready; scaling is paused")
            }
            Self::NoTemplate => write!(f, "the group has no node template"),
            Self::NotPlanned => {
                write!(f, "a new node would take the pod, but no plan for it was found")
            }
        }
    }
}
