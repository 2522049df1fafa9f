//! The steps that every kind's admission shares.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::Schema;
use crate::{CauseType, Problem, decode};

/// Adds to an object what every object has: `metadata`, and no nulls in its `spec` where a field may be absent. The part at
/// the pointer `opaque` is kept to the letter.
pub(crate) fn tidy(value: &mut Value, opaque: Option<&str>) {
    let Some(map) = value.as_object_mut() else { return };
    if map.get("metadata").is_none_or(Value::is_null) {
        map.insert("metadata".to_owned(), json!({}));
    }
    let kept = opaque.and_then(|pointer| Some((pointer, value.pointer_mut(pointer)?.take())));
    if let Some(spec) = value.get_mut("spec") {
        drop_nulls(spec);
    }
    if let Some((pointer, kept)) = kept
        && let Some((parent, name)) = pointer.rsplit_once('/')
        && let Some(Value::Object(parent)) = value.pointer_mut(parent)
    {
        parent.insert(name.to_owned(), kept);
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads an object as its type. Where that fails, every place that does not fit the schema is named, not just the first.
pub(crate) fn read<T: DeserializeOwned>(value: &Value, schema: &Schema) -> Result<T, Vec<Problem>> {
    decode::lenient(value).map_err(|first| {
        let all = schema.check(value);
        if all.is_empty() { first } else { all }
    })
}

/// Fills in the schema's defaults and checks the object against it.
pub(crate) fn fit(value: &mut Value, schema: &Schema) -> Result<(), Vec<Problem>> {
    schema.fill(value);
    done(schema.check(value))
}

/// Returns an error if there are problems.
pub(crate) fn done(problems: Vec<Problem>) -> Result<(), Vec<Problem>> {
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Writes one of our types as JSON.
pub(crate) fn json<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).expect("our types have text as keys and no failing serialisers")
}

/// The longest name that game servers, their sets and fleets may have: it becomes the value of labels.
pub(crate) fn name_length(value: &Value) -> Option<Problem> {
    let name = value["metadata"]["name"].as_str()?;
    let length = name.len();
    (length > 63).then(|| {
        let message = format!("expected at most 63 characters, found {length}");
        Problem::of(CauseType::TooLong, "metadata.name", message)
    })
}

/// Reads an object that is already stored; nothing if it cannot be read.
pub(crate) fn read_as_is<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}
