//! Fields that releases of Cluster Autoscaler number differently. Both are written; the newer one is preferred when both are read.

use jiff::{SignedDuration, Timestamp};
use prost::Message as _;

use super::core_v1::{Node, Pod};
use super::external_grpc::{
    Nanoseconds, NodeGroupAutoscalingOptions, NodeGroupTemplateNodeInfoResponse,
    PricingNodePriceRequest,
};
use super::grpc_expander::{BestOptionsRequest, Option as ExpanderOption};

/// The durations of a group's options; `None` where the message has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionDurations {
    /// How long a node must be unneeded before it is removed.
    pub unneeded_for: Option<SignedDuration>,
    /// How long an unready node must be unneeded before it is removed.
    pub unready_for: Option<SignedDuration>,
    /// How long a requested node may take to appear.
    pub max_provision_time: Option<SignedDuration>,
}

/// The time that a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its beginning.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
}

impl NodeGroupAutoscalingOptions {
    /// Reads the durations.
    pub fn durations(&self) -> OptionDurations {
        OptionDurations {
            unneeded_for: duration(
                self.scale_down_unneeded_duration,
                self.scale_down_unneeded_time,
            ),
            unready_for: duration(self.scale_down_unready_duration, self.scale_down_unready_time),
            max_provision_time: duration(
                self.max_node_provision_duration,
                self.max_node_provision_time,
            ),
        }
    }

    /// Replaces the durations.
    pub fn with_durations(self, durations: OptionDurations) -> Self {
        let OptionDurations { unneeded_for, unready_for, max_provision_time } = durations;
        Self {
            scale_down_unneeded_duration: unneeded_for.map(google),
            scale_down_unneeded_time: unneeded_for.map(nanoseconds),
            scale_down_unready_duration: unready_for.map(google),
            scale_down_unready_time: unready_for.map(nanoseconds),
            max_node_provision_duration: max_provision_time.map(google),
            max_node_provision_time: max_provision_time.map(nanoseconds),
            ..self
        }
    }
}

fn duration(
    new: Option<prost_types::Duration>,
    old: Option<Nanoseconds>,
) -> Option<SignedDuration> {
    let new = new.map(|new| SignedDuration::new(new.seconds, new.nanos));
    new.or_else(|| old.map(|old| SignedDuration::from_nanos(old.duration)))
}

fn google(duration: SignedDuration) -> prost_types::Duration {
    prost_types::Duration { seconds: duration.as_secs(), nanos: duration.subsec_nanos() }
}

fn nanoseconds(duration: SignedDuration) -> Nanoseconds {
    let longest = if duration.is_negative() { i64::MIN } else { i64::MAX };
    Nanoseconds { duration: i64::try_from(duration.as_nanos()).unwrap_or(longest) }
}

impl NodeGroupTemplateNodeInfoResponse {
    /// Answers with an example of a new node.
    pub fn new(node: &Node) -> Self {
        let bytes = node.encode_to_vec();
        Self { node_info: bytes.clone(), node_bytes: bytes }
    }

    /// Reads the example of a new node; `None`: there is none.
    pub fn node(&self) -> Result<Option<Node>, prost::DecodeError> {
        let bytes = if self.node_bytes.is_empty() { &self.node_info } else { &self.node_bytes };
        if bytes.is_empty() { Ok(None) } else { Node::decode(bytes.as_slice()).map(Some) }
    }
}

impl PricingNodePriceRequest {
    /// Reads the time that the price is for.
    pub fn period(&self) -> Option<Period> {
        let start = self.start_timestamp.or(self.start_time)?;
        let end = self.end_timestamp.or(self.end_time)?;
        Some(Period { start: timestamp(start)?, end: timestamp(end)? })
    }
}

fn timestamp(timestamp: prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(timestamp.seconds, timestamp.nanos).ok()
}

impl ExpanderOption {
    /// Adds the pods that the option is for.
    pub fn with_pods<'a>(self, pods: impl Iterator<Item = &'a Pod>) -> Self {
        let pods: Vec<Vec<u8>> = pods.map(Pod::encode_to_vec).collect();
        Self { pod: pods.clone(), pod_bytes: pods, ..self }
    }
}

impl BestOptionsRequest {
    /// Adds an example of a new node of a group.
    pub fn insert_node(&mut self, group: &str, node: &Node) {
        let bytes = node.encode_to_vec();
        self.node_map.insert(group.to_owned(), bytes.clone());
        self.node_bytes_map.insert(group.to_owned(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_both_forms_and_read_from_either() {
        let durations = OptionDurations {
            unneeded_for: Some(SignedDuration::new(90, 1)),
            unready_for: Some(SignedDuration::ZERO),
            max_provision_time: None,
        };
        let both = NodeGroupAutoscalingOptions::default().with_durations(durations);
        assert_eq!(both.scale_down_unneeded_time, Some(Nanoseconds { duration: 90_000_000_001 }));
        let old = NodeGroupAutoscalingOptions {
            scale_down_unneeded_duration: None,
            scale_down_unready_duration: None,
            ..both
        };
        let new = NodeGroupAutoscalingOptions {
            scale_down_unneeded_time: None,
            scale_down_unready_time: None,
            ..both
        };
        for options in [both, old, new] {
            assert_eq!(options.durations(), durations);
        }
        let conflicting = NodeGroupAutoscalingOptions {
            scale_down_unneeded_time: Some(Nanoseconds { duration: 1 }),
            ..both
        };
        assert_eq!(conflicting.durations(), durations);
    }

    #[test]
    fn a_duration_beyond_the_old_form_is_cut_there() {
        let long = SignedDuration::from_secs(i64::MAX);
        assert_eq!(nanoseconds(long).duration, i64::MAX);
        assert_eq!(google(long).seconds, i64::MAX);
    }
}
