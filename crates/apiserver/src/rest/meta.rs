//! Reads and writes the metadata that the API server maintains.

use jiff::Timestamp;
use process::Random;
use serde_json::{Map, Value};

/// Returns a text field of the metadata; empty when it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns the metadata, mutably; adds it if it is absent.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"].as_object_mut().expect("it was just made an object")
}

/// Sets a field of the metadata, or removes it.
pub(crate) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(of(object).insert(field.to_owned(), value)),
        None => drop(of(object).remove(field)),
    }
}

/// Copies a field of the metadata from one object to another, or removes it if it is absent.
pub(crate) fn keep(from: &Value, to: &mut Value, field: &str) {
    let kept = from["metadata"].get(field);
    if to["metadata"].get(field) != kept {
        set(to, field, kept.cloned());
    }
}

/// Lists the finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let listed = object["metadata"]["finalizers"].as_array();
    listed.into_iter().flatten().filter_map(|f| f.as_str().map(str::to_owned)).collect()
}

/// Sets the finalizers; removes the field if there are none.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    set(object, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
}

/// Returns whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Formats a time as objects have it.
pub(crate) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

/// Increments the generation of an object that has one.
pub(crate) fn next_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
        set(object, "generation", Some((generation + 1).into()));
    }
}

/// Generates a name: a prefix and five letters and digits, without vowels.
pub(crate) fn generated_name(base: &str, random: &Random) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = random.uuid();
    let base: String = base.chars().take(58).collect();
    let pick = |b: &u8| char::from(LETTERS[usize::from(*b) % LETTERS.len()]);
    let suffix: String = random.as_bytes().iter().filter(|b| **b < 243).take(5).map(pick).collect();
    // Sixteen bytes nearly always hold five that are even; any letter will do for the rest.
    format!("{base}{suffix:x<5}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_keep_their_beginning_and_fit() {
        let name = generated_name("web-", &Random::system());
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert_eq!(generated_name(&"a".repeat(100), &Random::system()).len(), 63);
        assert_ne!(generated_name("a", &Random::system()), generated_name("a", &Random::system()));
    }

    #[test]
    fn times_have_whole_seconds() {
        let at = Timestamp::from_millisecond(1_700_000_000_900).unwrap();
        assert_eq!(time(at), "2023-11-14T22:13:20Z");
    }
}
