//! Why a node stays.

use std::fmt;

use jiff::Timestamp;

use crate::Reason;
use crate::nodes::drain::Blocking;

/// What keeps a node. The codes are Cluster Autoscaler's where it has one.
#[derive(Clone, Debug, PartialEq)]
pub enum Keep {
    /// No nodes are removed at all.
    ScaleDownDisabled,
    ScaleDownDisabledAnnotation,
    ScaleDownUnreadyDisabled,
    NotAutoscaled,
    NotUnneededLongEnough(Timestamp),
    NotUnreadyLongEnough(Timestamp),
    /// The group's smallest size.
    NodeGroupMinSizeReached(u32),
    /// As many nodes as may go at once already do.
    NodeGroupMaxDeletionCountReached,
    AtomicScaleDownFailed,
    /// What the cluster would have too little of.
    MinimalResourceLimitExceeded(Box<str>),
    CurrentlyBeingDeleted,
    NotUnderutilized {
        utilization: f64,
        threshold: f64,
    },
    /// A pod that no other node takes.
    NoPlaceToMovePods(Box<str>),
    /// A pod whose only place is on a node that could go itself right after.
    PodWouldMoveTwice {
        pod: Box<str>,
        to: Box<str>,
    },
    BlockedByPod(Box<str>, Blocking),
    /// A pod that ends by itself.
    BlockedByOnCompletionPod(Box<str>),
    /// The node does not say what it has.
    UnexpectedError,
    /// Nodes were added, or this one has not started yet; nothing goes before then.
    RecentlyAdded(Timestamp),
    RecentlyDeleted(Timestamp),
    RecentlyFailed(Timestamp),
}

impl Keep {
    /// Names the pod that is in the way.
    pub fn pod(&self) -> Option<&str> {
        if let Self::NoPlaceToMovePods(pod)
        | Self::PodWouldMoveTwice { pod, .. }
        | Self::BlockedByPod(pod, _)
        | Self::BlockedByOnCompletionPod(pod) = self
        {
            return Some(pod);
        }
        None
    }

    /// Says why that pod is in the way.
    pub fn blocking(&self) -> Option<Blocking> {
        if let Self::BlockedByPod(_, blocking) = self { Some(*blocking) } else { None }
    }

    /// Gives the moment until which time alone keeps the node.
    pub fn until(&self) -> Option<Timestamp> {
        if let Self::NotUnneededLongEnough(until)
        | Self::NotUnreadyLongEnough(until)
        | Self::RecentlyAdded(until)
        | Self::RecentlyDeleted(until)
        | Self::RecentlyFailed(until) = self
        {
            return Some(*until);
        }
        None
    }
}

impl Reason for Keep {
    fn code(&self) -> &'static str {
        match self {
            Self::ScaleDownDisabled => "ScaleDownDisabled",
            Self::ScaleDownDisabledAnnotation => "ScaleDownDisabledAnnotation",
            Self::ScaleDownUnreadyDisabled => "ScaleDownUnreadyDisabled",
            Self::NotAutoscaled => "NotAutoscaled",
            Self::NotUnneededLongEnough(_) => "NotUnneededLongEnough",
            Self::NotUnreadyLongEnough(_) => "NotUnreadyLongEnough",
            Self::NodeGroupMinSizeReached(_) => "NodeGroupMinSizeReached",
            Self::NodeGroupMaxDeletionCountReached => "NodeGroupMaxDeletionCountReached",
            Self::AtomicScaleDownFailed => "AtomicScaleDownFailed",
            Self::MinimalResourceLimitExceeded(_) => "MinimalResourceLimitExceeded",
            Self::CurrentlyBeingDeleted => "CurrentlyBeingDeleted",
            Self::NotUnderutilized { .. } => "NotUnderutilized",
            Self::NoPlaceToMovePods(_) => "NoPlaceToMovePods",
            Self::PodWouldMoveTwice { .. } => "PodWouldMoveTwice",
            Self::BlockedByPod(..) => "BlockedByPod",
            Self::BlockedByOnCompletionPod(_) => "BlockedByOnCompletionPod",
            Self::UnexpectedError => "UnexpectedError",
            Self::RecentlyAdded(_) => "RecentlyAdded",
            Self::RecentlyDeleted(_) => "RecentlyDeleted",
            Self::RecentlyFailed(_) => "RecentlyFailed",
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaleDownDisabled => {
                write!(f, "no nodes are removed: scaleDown.enabled is false")
            }
            Self::ScaleDownDisabledAnnotation => write!(f, "its annotation says that it stays"),
            Self::ScaleDownUnreadyDisabled => write!(f, "it is not ready, and such nodes stay"),
            Self::NotAutoscaled => write!(f, "it belongs to no node group"),
            Self::NotUnneededLongEnough(until) => {
                write!(f, "unneeded, but not for long enough until {until}")
            }
            Self::NotUnreadyLongEnough(until) => {
                write!(f, "not ready and unneeded, but not for long enough until {until}")
            }
            Self::NodeGroupMinSizeReached(min) => {
                write!(f, "its group would have fewer nodes than its smallest size, {min}")
            }
            Self::NodeGroupMaxDeletionCountReached => {
                write!(f, "unneeded, but as many nodes go as may go at once")
            }
            Self::AtomicScaleDownFailed => {
                write!(f, "its group goes as a whole, and another node of it stays")
            }
            Self::MinimalResourceLimitExceeded(what) => {
                write!(f, "the cluster would have less {what} than its limit asks for")
            }
            Self::CurrentlyBeingDeleted => write!(f, "it is being removed already"),
            Self::NotUnderutilized { utilization, threshold } => {
                let percent = |share: f64| (share * 1000.0).round() / 10.0;
                let (used, at_most) = (percent(*utilization), percent(*threshold));
                write!(f, "{used} % of it is asked for; a node goes at {at_most} % or less")
            }
            Self::NoPlaceToMovePods(pod) => write!(f, "no other node has room for {pod}"),
            Self::PodWouldMoveTwice { pod, to } => {
                write!(f, "{pod} would move to {to}, and once more when that goes right after")
            }
            Self::BlockedByPod(pod, blocking) => write!(f, "{pod} keeps it: {blocking}"),
            Self::BlockedByOnCompletionPod(pod) => write!(f, "it waits until {pod} has ended"),
            Self::UnexpectedError => write!(f, "it does not say how much cpu and memory it has"),
            Self::RecentlyAdded(until) => {
                write!(f, "nodes were added a moment ago; nothing goes before {until}")
            }
            Self::RecentlyDeleted(until) => {
                write!(f, "nodes were removed a moment ago; nothing goes before {until}")
            }
            Self::RecentlyFailed(until) => {
                write!(f, "a removal failed a moment ago; nothing goes before {until}")
            }
        }
    }
}
