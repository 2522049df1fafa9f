//! Which sets of fields come again and again?
//!
//! The objects of one kind are written by the same few managers, so their sets are the same few texts, and what a write makes
//! of them is the same, too. A text that was read before is not read again, a set that did not change is written as it was read,
//! and one that changed as it did before is neither worked out nor written again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Set;

/// How many sets a thread remembers; they are about a kilobyte each.
const MOST: usize = 512;
/// How many sets it remembers that were made of one of them.
const MOST_MADE: usize = 4;

thread_local! {
    static KNOWN: RefCell<HashMap<Box<str>, Fields>> = RefCell::default();
}

/// The fields of one manager.
#[derive(Clone, Debug, Default)]
pub struct Fields(Rc<Known>);

#[derive(Debug, Default)]
struct Known {
    set: Set,
    /// How they are written, of a set that was read and what was made of it.
    text: Option<Box<RawValue>>,
    made: RefCell<Vec<(Change, Set, Fields)>>,
}

/// What is done to a set with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Subtract,
}

impl Fields {
    /// Reads a set.
    pub fn read(text: &RawValue) -> serde_json::Result<Self> {
        KNOWN.with_borrow_mut(|known| {
            if let Some(fields) = known.get(text.get()) {
                return Ok(fields.clone());
            }
            let set = serde_json::from_str(text.get())?;
            let fields = Self::of(set, Some(text.to_owned()));
            if known.len() == MOST {
                known.clear();
            }
            known.insert(text.get().into(), fields.clone());
            Ok(fields)
        })
    }

    fn of(set: Set, text: Option<Box<RawValue>>) -> Self {
        Self(Rc::new(Known { set, text, made: RefCell::default() }))
    }

    /// Gives the set to change it.
    pub fn change(&mut self) -> &mut Set {
        *self = self.0.set.clone().into();
        &mut Rc::get_mut(&mut self.0).expect("nobody else has what was just made").set
    }

    /// Adds the paths of a set.
    pub fn add(&mut self, set: &Set) {
        if !self.contains(set) {
            *self = self.make(Change::Add, set);
        }
    }

    /// Removes the paths of a set, and only these.
    pub fn subtract(&mut self, set: &Set) {
        if self.meets(set) {
            *self = self.make(Change::Subtract, set);
        }
    }

    fn make(&self, change: Change, with: &Set) -> Self {
        let mut made = self.0.made.borrow_mut();
        if let Some((.., known)) = made.iter().find(|(c, w, _)| *c == change && w == with) {
            return known.clone();
        }
        let mut set = self.0.set.clone();
        match change {
            Change::Add => set.add(with),
            Change::Subtract => set.subtract(with),
        }
        let text = self.0.text.as_ref().and_then(|_| to_raw_value(&set).ok());
        let fields = Self::of(set, text);
        if made.len() < MOST_MADE {
            made.push((change, with.clone(), fields.clone()));
        }
        fields
    }
}

impl From<Set> for Fields {
    fn from(set: Set) -> Self {
        Self::of(set, None)
    }
}

impl Deref for Fields {
    type Target = Set;

    fn deref(&self) -> &Set {
        &self.0.set
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.text {
            Some(text) => text.serialize(serializer),
            None => self.0.set.serialize(serializer),
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
    fn what_was_made_of_a_set_before_is_what_it_would_be() {
        let set = |text: &str| serde_json::from_str::<Set>(text).unwrap();
        let (one, other) = (set(r#"{"f:b": {}}"#), set(r#"{"f:c": {}}"#));
        let make = || {
            let mut fields = read(r#"{"f:a":{},"f:b":{}}"#);
            fields.subtract(&one);
            fields.add(&other);
            fields
        };
        for fields in [make(), make()] {
            assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"f:a":{},"f:c":{}}"#);
        }
        assert!(Rc::ptr_eq(&make().0, &make().0), "it is remembered");
        assert_eq!(*read(r#"{"f:a":{},"f:b":{}}"#), set(r#"{"f:a":{},"f:b":{}}"#));
    }

    #[test]
    fn a_thread_does_not_remember_without_end() {
        for index in 0..2 * MOST {
            read(&format!(r#"{{"f:{index}":{{}}}}"#));
        }
        assert!(KNOWN.with_borrow(HashMap::len) <= MOST);
    }
}
