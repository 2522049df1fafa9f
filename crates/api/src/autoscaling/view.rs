//! An autoscaler as the decision about its fleet reads it.

use decide::fleet::{Autoscaler, Reply};
use jiff::Timestamp;

use super::{FleetAutoscaleReview, FleetAutoscaler};
use crate::agones::view::moment;
use crate::{Problem, decode};

impl FleetAutoscaler {
    /// Returns what identifies an autoscaler among those of one fleet.
    pub fn view(&self) -> Autoscaler {
        Autoscaler {
            created_at: moment(self.metadata.creation_timestamp.as_ref(), Timestamp::MAX),
            name: self.metadata.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl FleetAutoscaleReview {
    /// Reads a review out of a file or an answer.
    pub fn read(value: &serde_json::Value) -> Result<Self, Vec<Problem>> {
        decode::lenient(value)
    }

    /// Returns what was answered.
    pub fn reply(&self) -> Reply {
        match &self.response {
            None => Reply::Failed("it has no `response`".into()),
            Some(response) if response.scale => Reply::Scale(response.replicas),
            Some(_) => Reply::Keep,
        }
    }
}
