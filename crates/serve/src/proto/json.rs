//! How messages look as JSON: every field is there, 64-bit numbers are strings, words from a fixed set are names.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;

/// Reads a message. Nothing at all is an empty message, `null` is the same as absent, and unknown fields are ignored.
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

/// Makes the module for one set of words.
macro_rules! words {
    ($module:ident, $words:path) => {
        pub(crate) mod $module {
            use super::{Deserializer, Serializer};
            use $words as Words;

            pub(crate) fn serialize<S: Serializer>(number: &i32, to: S) -> Result<S::Ok, S::Error> {
                match Words::try_from(*number) {
                    Ok(word) => to.serialize_str(word.as_str_name()),
                    Err(_) => to.serialize_i32(*number),
                }
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
                super::word(from, |name| Words::from_str_name(name).map(i32::from))
            }
        }
    };
}

words!(scheduling, crate::proto::allocation::allocation_request::SchedulingStrategy);
words!(operator, crate::proto::allocation::label_match_expressions::Operator);
words!(game_server_state, crate::proto::allocation::game_server_selector::GameServerState);
words!(priority_type, crate::proto::allocation::priority::Type);
words!(priority_order, crate::proto::allocation::priority::Order);

fn word<'de, D: Deserializer<'de>>(
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
        let asked: beta::CounterUpdateRequest = read(json).unwrap();
        let wanted =
            beta::CounterUpdateRequest { count_diff: -1, capacity: Some(42), ..Default::default() };
        assert_eq!(asked, wanted);
        assert_eq!(read::<sdk::Duration>(b" ").unwrap().seconds, 0, "no body is an empty message");
        assert!(read::<sdk::Duration>(br#"{"seconds": "soon"}"#).is_err());
    }

    #[test]
    fn an_allocation_names_its_words_or_numbers_them() {
        for json in [
            r#"{"scheduling":"Distributed","gameServerSelectors":[{"gameServerState":"ALLOCATED"}],"counters":{"rooms":{"action":"Increment","amount":"1"}}}"#,
            r#"{"scheduling":1,"gameServerSelectors":[{"gameServerState":1,"players":{"minAvailable":1}}],"counters":{"rooms":{"action":"Increment","amount":1}}}"#,
        ] {
            let asked: allocation::AllocationRequest = read(json.as_bytes()).unwrap();
            assert_eq!(asked.scheduling, 1);
            assert_eq!(asked.game_server_selectors[0].game_server_state, 1);
            assert_eq!(asked.counters["rooms"].amount, Some(1));
            assert_eq!(asked.counters["rooms"].action.as_deref(), Some("Increment"));
        }
        assert!(read::<allocation::AllocationRequest>(br#"{"scheduling":"Sideways"}"#).is_err());
    }
}
