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
    static KNOWN: RefCell<HashMap<Box<str>, Arc<Known>>> = RefCell::default();
}

/// A set, and how it is written.
#[derive(Debug)]
pub(crate) struct Known {
    text: Box<RawValue>,
    set: Set,
}

/// The fields of one manager.
#[derive(Clone, Debug)]
pub(crate) enum Fields {
    /// As they were read.
    Known(Arc<Known>),
    Changed(Set),
}

impl Fields {
    /// Reads a set.
    pub(crate) fn read(text: &RawValue) -> serde_json::Result<Self> {
        KNOWN.with_borrow_mut(|known| {
            if let Some(known) = known.get(text.get()) {
                return Ok(Self::Known(Arc::clone(known)));
            }
            let set = serde_json::from_str(text.get())?;
            let read = Arc::new(Known { text: text.to_owned(), set });
            if known.len() == MOST {
                known.clear();
            }
            known.insert(text.get().into(), Arc::clone(&read));
            Ok(Self::Known(read))
        })
    }

    /// Gives the set to change it.
    pub(crate) fn change(&mut self) -> &mut Set {
        if let Self::Known(known) = self {
            *self = Self::Changed(known.set.clone());
        }
        match self {
            Self::Changed(set) => set,
            Self::Known(_) => unreachable!("it was just made a set of its own"),
        }
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
        Self::Changed(set)
    }
}

impl Deref for Fields {
    type Target = Set;

    fn deref(&self) -> &Set {
        match self {
            Self::Known(known) => &known.set,
            Self::Changed(set) => set,
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(known) => known.text.serialize(serializer),
            Self::Changed(set) => set.serialize(serializer),
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
