//! Reads JSON: one document after the other, and the items of a List one by one.

use std::ops::ControlFlow;

use serde::de::DeserializeSeed as _;

use super::object::{Document, Reading};
use super::source::Source;
use super::{Entry, Place};

/// Passes on every object of a file.
pub(super) fn read(source: Source, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) {
    let mut json = serde_json::Deserializer::from_reader(source);
    let mut document = 1;
    while document == 1 || json.end().is_err() {
        let mut reading = Reading::new(Place::Document(document), take);
        if let Err(err) = Document::of(&mut reading).deserialize(&mut json) {
            // Nothing after it can be told apart.
            let _ = reading.fail("JSON", &err.to_string());
            return;
        }
        document += 1;
    }
}
