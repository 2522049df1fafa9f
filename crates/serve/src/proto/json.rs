//! The JSON encoding of protobuf messages: every field is written, 64-bit numbers are strings, enum values are names.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

/// Reads a message. An empty body is an empty message, `null` is the same as absent, and unknown fields are ignored.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let mut value = match bytes.trim_ascii() {
        b"" => Value::Object(serde_json::Map::new()),
        bytes => serde_json::from_slice(bytes)?,
    };
    drop_nulls(&mut value);
    serde_json::from_value(value)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(i64),
    Text(String),
}

impl NumberOrText {
    fn number<E: serde::de::Error>(self) -> Result<i64, E> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => text
                .parse()
                .map_err(|_| E::custom(format!("expected a 64-bit number, found {text:?}"))),
        }
    }
}

/// A 64-bit number, written as a string and read as either.
pub(crate) mod int64 {
    use super::{Deserialize as _, Deserializer, NumberOrText, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        NumberOrText::deserialize(from)?.number()
    }
}

/// A 64-bit number that may be absent.
pub(crate) mod optional_int64 {
    use super::{Deserialize as _, Deserializer, NumberOrText, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
        match number {
            Some(number) => to.collect_str(number),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
        NumberOrText::deserialize(from)?.number().map(Some)
    }
}

/// Defines the serde module of one protobuf enum.
macro_rules! enum_names {
    ($module:ident, $enum:path) => {
        pub(crate) mod $module {
            use super::{Deserializer, Serializer};
            use $enum as Enum;

            pub(crate) fn serialize<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
                match Enum::try_from(*number) {
                    Ok(value) => to.serialize_str(value.as_str_name()),
                    Err(_) => to.serialize_i32(*number),
                }
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
                super::enum_value(from, |name| Enum::from_str_name(name).map(i32::from))
            }
        }
    };
}

enum_names!(scheduling, crate::proto::allocation::allocation_request::SchedulingStrategy);
enum_names!(operator, crate::proto::allocation::label_match_expressions::Operator);
enum_names!(game_server_state, crate::proto::allocation::game_server_selector::GameServerState);
enum_names!(priority_type, crate::proto::allocation::priority::Type);
enum_names!(priority_order, crate::proto::allocation::priority::Order);

fn enum_value<'de, D: Deserializer<'de>>(
    from: D,
    by_name: fn(&str) -> Option<i32>,
) -> Result<i32, D::Error> {
    match NumberOrText::deserialize(from)? {
        NumberOrText::Text(name) => {
            by_name(&name).ok_or_else(|| D::Error::custom(format!("unknown name {name:?}")))
        }
        NumberOrText::Number(number) => i32::try_from(number).map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::proto::{allocation, alpha, beta, sdk};

    #[test]
    fn zero_values_are_written_and_long_numbers_are_strings() {
        let status = sdk::game_server::Status {
            counters: [("rooms".to_owned(), Default::default())].into(),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"state":"","address":"","addresses":[],"ports":[],"players":null,"counters":{"rooms":{"count":"0","capacity":"0"}},"lists":{}}"#
        );
        let id = alpha::PlayerId { player_id: "a".to_owned() };
        assert_eq!(serde_json::to_string(&id).unwrap(), r#"{"playerID":"a"}"#);
    }

    #[test]
    fn numbers_are_read_from_strings_too_and_unknown_fields_are_ignored() {
        let json =
            br#"{"countDiff": -1, "capacity": "42", "count": null, "count_diff": 7, "x": {}}"#;
        let request: beta::CounterUpdateRequest = read(json).unwrap();
        let expected =
            beta::CounterUpdateRequest { count_diff: -1, capacity: Some(42), ..Default::default() };
        assert_eq!(request, expected);
        assert_eq!(
            read::<sdk::Duration>(b" ").unwrap().seconds,
            0,
            "an empty body is an empty message"
        );
        assert!(read::<sdk::Duration>(br#"{"seconds": "soon"}"#).is_err());
    }

    #[test]
    fn enum_values_are_read_from_names_and_numbers() {
        for json in [
            r#"{"scheduling":"Distributed","gameServerSelectors":[{"gameServerState":"ALLOCATED"}],"counters":{"rooms":{"action":"Increment","amount":"1"}}}"#,
            r#"{"scheduling":1,"gameServerSelectors":[{"gameServerState":1,"players":{"minAvailable":1}}],"counters":{"rooms":{"action":"Increment","amount":1}}}"#,
        ] {
            let request: allocation::AllocationRequest = read(json.as_bytes()).unwrap();
            assert_eq!(request.scheduling, 1);
            assert_eq!(request.game_server_selectors[0].game_server_state, 1);
            assert_eq!(request.counters["rooms"].amount, Some(1));
            assert_eq!(request.counters["rooms"].action.as_deref(), Some("Increment"));
        }
        assert!(read::<allocation::AllocationRequest>(br#"{"scheduling":"Sideways"}"#).is_err());
    }
}
