//! Why a pod cannot be on a node, or why a group does not help it.

use std::fmt;

use crate::Reason;

/// Why not there.
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
    /// The group cannot grow: its size and its largest.
    AtMaxSize(u32),
    /// What is limited for the whole cluster.
    LimitReached(Box<str>),
    BackedOff,
    Unhealthy,
    NoTemplate,
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
            Self::NoTemplate => "NoTemplate",
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
                write!(f, "the pod's node selector or affinity asks for another node")
            }
            Self::HostPortTaken(port) => write!(f, "host port {port} is taken"),
            Self::TooManyPods => write!(f, "the node takes no more pods"),
            Self::InsufficientCpu => write!(f, "not enough cpu"),
            Self::InsufficientMemory => write!(f, "not enough memory"),
            Self::InsufficientResource(name) => write!(f, "not enough {name}"),
            Self::VolumeLimit(driver) => write!(f, "the node attaches no more volumes of {driver}"),
            Self::VolumeZone(volume) => write!(f, "volume {volume} cannot be reached from there"),
            Self::TopologySpread(key) => {
                write!(f, "the pod's spread over {key} would be too uneven")
            }
            Self::PodAffinity(key) => {
                write!(f, "no pod that it wants to be near has the same {key}")
            }
            Self::PodAntiAffinity(key) => write!(f, "a pod it must not be near has the same {key}"),
            Self::AtMaxSize(max) => write!(f, "the group has its largest size, {max}"),
            Self::LimitReached(what) => write!(f, "the cluster's limit on {what} is reached"),
            Self::BackedOff => write!(f, "the group failed lately and is left alone for a while"),
            Self::Unhealthy => write!(f, "too many of the group's nodes are missing or not ready"),
            Self::NoTemplate => write!(f, "what a new node would look like is not known"),
        }
    }
}
