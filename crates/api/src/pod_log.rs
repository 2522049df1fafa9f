//! The options of `pods/log`, which the API server passes on to the kubelet.

use jiff::Timestamp;

/// Which part of a container's log is read, and how: Kubernetes' `PodLogOptions`, without the name of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLogOptions {
    /// Follows the log until the container ends.
    pub follow: bool,
    /// Reads the log of the previous run.
    pub previous: bool,
    /// Skips lines that are older than this many seconds.
    pub since_seconds: Option<i64>,
    /// Skips lines from before this time.
    pub since_time: Option<Timestamp>,
    /// Puts its time before each line.
    pub timestamps: bool,
    /// Starts with this many of the existing lines.
    pub tail_lines: Option<usize>,
    /// Ends after this many bytes.
    pub limit_bytes: Option<usize>,
}
