//! A duration as our kinds write it: `90s`, `5m`, `1h30m`, `0s`.

use std::borrow::Cow;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, written in Go's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub SignedDuration);

impl Span {
    /// Returns a span of whole minutes.
    pub const fn minutes(minutes: i64) -> Self {
        Self(SignedDuration::from_secs(minutes * 60))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::duration::format(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        crate::duration::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_and_read_in_gos_way() {
        let span: Span = serde_json::from_str("\"1h30m\"").unwrap();
        assert_eq!(span, Span::minutes(90));
        assert_eq!(serde_json::to_string(&span).unwrap(), "\"1h30m0s\"");
        assert!(serde_json::from_str::<Span>("90").is_err());
    }
}
