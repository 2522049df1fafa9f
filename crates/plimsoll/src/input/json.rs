//! Reads JSON: one document after the other, and the items of a List one by one.

use std::ops::ControlFlow;

use serde::de::DeserializeSeed as _;

use super::object::{Document, Reading};
use super::source::Source;
use super::{Entry, Position};

/// Emits every object of a file.
pub(super) fn read(source: Source, handle: &mut dyn FnMut(Entry) -> ControlFlow<()>) {
    let mut json = serde_json::Deserializer::from_reader(source);
    let mut document = 1;
    while document == 1 || json.end().is_err() {
        let mut reading = Reading::new(Position::Document(document), handle);
        if let Err(err) = Document::new(&mut reading).deserialize(&mut json) {
            // The start of the next document is unknown.
            let _ = reading.fail("JSON", &err.to_string());
            return;
        }
        document += 1;
    }
}
