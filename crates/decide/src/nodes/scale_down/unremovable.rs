//! The reasons why nodes are kept.

use std::fmt;

use jiff::Timestamp;

use crate::Reason;
use crate::nodes::drain::Blocking;

/// The reason why a node is not removed. The codes are Cluster Autoscaler's where it has one.
#[derive(Clone, Debug, PartialEq)]
pub enum UnremovableReason {
    /// Scale-down is disabled.
    ScaleDownDisabled,
    ScaleDownDisabledAnnotation,
    ScaleDownUnreadyDisabled,
    NotAutoscaled,
    NotUnneededLongEnough(Timestamp),
    NotUnreadyLongEnough(Timestamp),
    /// The group's minimum.
    NodeGroupMinSizeReached(u32),
    /// The provider is replacing the machines of the group.
    NodeGroupRollingOut,
    /// The maximum number of parallel removals is reached.
    NodeGroupMaxDeletionCountReached,
    AtomicScaleDownFailed,
    /// The resource whose minimum would be violated.
    MinimalResourceLimitExceeded(Box<str>),
    CurrentlyBeingDeleted,
    NotUnderutilized {
        utilization: f64,
        threshold: f64,
    },
    /// A pod that does not fit on any other node.
    NoPlaceToMovePods(Box<str>),
    /// A pod that only fits on a node that could be removed right after.
    PodWouldMoveTwice {
        pod: Box<str>,
        to: Box<str>,
    },
    BlockedByPod(Box<str>, Blocking),
    /// A pod that the removal waits for.
    BlockedByOnCompletionPod(Box<str>),
    /// The node has no allocatable resources.
    UnexpectedError,
    /// Nodes were added, or this one has not started yet.
    RecentlyAdded(Timestamp),
    RecentlyDeleted(Timestamp),
    RecentlyFailed(Timestamp),
}

impl UnremovableReason {
    /// Returns the pod that prevents the removal.
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

    /// Returns why that pod prevents the removal.
    pub fn blocking(&self) -> Option<Blocking> {
        if let Self::BlockedByPod(_, blocking) = self { Some(*blocking) } else { None }
    }

    /// Returns the time until which the node is kept for this reason.
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

impl Reason for UnremovableReason {
    fn code(&self) -> &'static str {
        match self {
            Self::ScaleDownDisabled => "ScaleDownDisabled",
            Self::ScaleDownDisabledAnnotation => "ScaleDownDisabledAnnotation",
            Self::ScaleDownUnreadyDisabled => "ScaleDownUnreadyDisabled",
            Self::NotAutoscaled => "NotAutoscaled",
            Self::NotUnneededLongEnough(_) => "NotUnneededLongEnough",
            Self::NotUnreadyLongEnough(_) => "NotUnreadyLongEnough",
            Self::NodeGroupMinSizeReached(_) => "NodeGroupMinSizeReached",
            Self::NodeGroupRollingOut => "NodeGroupRollingOut",
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

impl fmt::Display for UnremovableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaleDownDisabled => {
                write!(f, "scaleDown.enabled is false")
            }
            Self::ScaleDownDisabledAnnotation => write!(f, "its annotation disables scale-down"),
            Self::ScaleDownUnreadyDisabled => {
                write!(f, "it is not ready, and scale-down of unready nodes is disabled")
            }
            Self::NotAutoscaled => write!(f, "it belongs to no node group"),
            Self::NotUnneededLongEnough(until) => {
                write!(f, "unneeded, but not for long enough before {until}")
            }
            Self::NotUnreadyLongEnough(until) => {
                write!(f, "not ready and unneeded, but not for long enough before {until}")
            }
            Self::NodeGroupMinSizeReached(min) => {
                write!(f, "its group is at its minimum of {min}")
            }
            Self::NodeGroupRollingOut => {
                write!(f, "the provider is replacing the machines of its group")
            }
            Self::NodeGroupMaxDeletionCountReached => {
                write!(f, "unneeded, but the maximum number of parallel removals is reached")
            }
            Self::AtomicScaleDownFailed => {
                write!(f, "its group is removed as a whole, and another of its nodes stays")
            }
            Self::MinimalResourceLimitExceeded(what) => {
                write!(f, "the cluster would fall below its minimum of {what}")
            }
            Self::CurrentlyBeingDeleted => write!(f, "it is being removed already"),
            Self::NotUnderutilized { utilization, threshold } => {
                let percent = |share: f64| (share * 1000.0).round() / 10.0;
                let (used, at_most) = (percent(*utilization), percent(*threshold));
                write!(f, "its utilization is {used} %; the threshold is {at_most} %")
            }
            Self::NoPlaceToMovePods(pod) => write!(f, "no other node has room for {pod}"),
            Self::PodWouldMoveTwice { pod, to } => {
                write!(
                    f,
                    "{pod} would move to {to}, and again when that node is removed right after"
                )
            }
            Self::BlockedByPod(pod, blocking) => write!(f, "{pod} blocks the removal: {blocking}"),
            Self::BlockedByOnCompletionPod(pod) => write!(f, "waiting for {pod} to complete"),
            Self::UnexpectedError => write!(f, "it does not report allocatable cpu and memory"),
            Self::RecentlyAdded(until) => {
                write!(f, "nodes were added recently; scale-down is held until {until}")
            }
            Self::RecentlyDeleted(until) => {
                write!(f, "nodes were removed recently; scale-down is held until {until}")
            }
            Self::RecentlyFailed(until) => {
                write!(f, "a removal failed recently; scale-down is held until {until}")
            }
        }
    }
}
