//! Which sets of fields come again and again?
//!
//! The objects of one kind are written by the same few managers, so their sets are the same few texts. A text that was read
//! before is not read again, and a set that did not change is written as it was read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::Set;

/// How many sets a thread remembers; they are about a kilobyte each.
const MOST: usize = 512;

thread_local! {
    static KNOWN: RefCell<HashMap<Box<str>, Fields>> = RefCell::default();
}

/// The fields of one manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    set: Arc<Set>,
    /// How they were written, while they are what was read.
    text: Option<Arc<RawValue>>,
}

impl Fields {
    /// Reads a set.
    pub(crate) fn read(text: &RawValue) -> serde_json::Result<Self> {
        KNOWN.with_borrow_mut(|known| {
            if let Some(fields) = known.get(text.get()) {
                return Ok(fields.clone());
            }
            let set = Arc::new(serde_json::from_str(text.get())?);
            let fields = Self { set, text: Some(text.to_owned().into()) };
            if known.len() == MOST {
                known.clear();
            }
            known.insert(text.get().into(), fields.clone());
            Ok(fields)
        })
    }

    /// Gives the set to change it.
    pub(crate) fn change(&mut self) -> &mut Set {
        self.text = None;
        Arc::make_mut(&mut self.set)
    }

    /// Adds the paths of a set.
    pub(crate) fn add(&mut self, set: &Set) {
        if !self.contains(set) {
            self.change().add(set);
        }
    }

    /// Removes the paths of a set, and only these.
    pub(crate) fn subtract(&mut self, set: &Set) {
        if self.meets(set) {
            self.change().subtract(set);
        }
    }
}

impl From<Set> for Fields {
    fn from(set: Set) -> Self {
        Self { set: Arc::new(set), text: None }
    }
}

impl Deref for Fields {
    type Target = Set;

    fn deref(&self) -> &Set {
        &self.set
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Some(text) => text.as_ref().serialize(serializer),
            None => self.set.as_ref().serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Fields {
        Fields::read(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn what_does_not_change_is_written_as_it_was_read() {
        // Not how we would write it.
        let text = r#"{ "f:b": {}, "f:a": {".": {}, "f:c": {}} }"#;
        let other: Set = serde_json::from_str(r#"{"f:d": {}}"#).unwrap();
        let part: Set = serde_json::from_str(r#"{"f:a": {"f:c": {}}}"#).unwrap();
        let mut fields = read(text);
        fields.subtract(&other);
        fields.add(&part);
        assert_eq!(serde_json::to_string(&fields).unwrap(), text);
        fields.add(&other);
        fields.subtract(&part);
        let wanted = r#"{"f:a":{},"f:b":{},"f:d":{}}"#;
        assert_eq!(serde_json::to_string(&fields).unwrap(), wanted);
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), text, "others keep theirs");
    }

    #[test]
    fn a_thread_does_not_remember_without_end() {
        for index in 0..2 * MOST {
            read(&format!(r#"{{"f:{index}":{{}}}}"#));
        }
        assert!(KNOWN.with_borrow(HashMap::len) <= MOST);
    }
}
