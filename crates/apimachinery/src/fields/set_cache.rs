//! Caches parsed field sets.
//!
//! The objects of one kind are written by the same few managers, so the same few sets come up again and again, and so do the
//! results of operations on them. The cache avoids parsing a text twice, serializing an unchanged set, and repeating an
//! operation on the same sets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::Set;

/// The number of sets that a thread caches; each takes about a kilobyte.
const MAX_CACHED: usize = 512;
/// The number of derived sets that are cached for each of them.
const MAX_DERIVED: usize = 4;

thread_local! {
    static CACHE: RefCell<HashMap<Box<str>, OwnedFields>> = RefCell::default();
}

/// The fields that one manager owns.
#[derive(Clone, Debug, Default)]
pub struct OwnedFields(Rc<CachedSet>);

#[derive(Debug, Default)]
struct CachedSet {
    set: Set,
    /// The serialized form, for a set that was parsed and for sets derived from one.
    text: Option<Box<RawValue>>,
    derived: RefCell<Vec<(SetOperation, Set, OwnedFields)>>,
}

/// An operation on two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetOperation {
    Add,
    Subtract,
}

impl OwnedFields {
    /// Parses a set.
    pub fn read(text: &RawValue) -> serde_json::Result<Self> {
        CACHE.with_borrow_mut(|known| {
            if let Some(fields) = known.get(text.get()) {
                return Ok(fields.clone());
            }
            let set = serde_json::from_str(text.get())?;
            let fields = Self::new(set, Some(text.to_owned()));
            if known.len() == MAX_CACHED {
                known.clear();
            }
            known.insert(text.get().into(), fields.clone());
            Ok(fields)
        })
    }

    fn new(set: Set, text: Option<Box<RawValue>>) -> Self {
        Self(Rc::new(CachedSet { set, text, derived: RefCell::default() }))
    }

    /// Returns the set for modification.
    pub fn change(&mut self) -> &mut Set {
        *self = self.0.set.clone().into();
        &mut Rc::get_mut(&mut self.0).expect("the value was just created").set
    }

    /// Adds the paths of a set.
    pub fn add(&mut self, set: &Set) {
        if !self.contains(set) {
            *self = self.derive(SetOperation::Add, set);
        }
    }

    /// Removes the paths of a set, and only these.
    pub fn subtract(&mut self, set: &Set) {
        if self.intersects(set) {
            *self = self.derive(SetOperation::Subtract, set);
        }
    }

    fn derive(&self, change: SetOperation, with: &Set) -> Self {
        let mut derived = self.0.derived.borrow_mut();
        if let Some((.., known)) = derived.iter().find(|(c, w, _)| *c == change && w == with) {
            return known.clone();
        }
        let mut set = self.0.set.clone();
        match change {
            SetOperation::Add => set.add(with),
            SetOperation::Subtract => set.subtract(with),
        }
        let text = self.0.text.as_ref().and_then(|_| to_raw_value(&set).ok());
        let fields = Self::new(set, text);
        if derived.len() < MAX_DERIVED {
            derived.push((change, with.clone(), fields.clone()));
        }
        fields
    }
}

impl From<Set> for OwnedFields {
    fn from(set: Set) -> Self {
        Self::new(set, None)
    }
}

impl Deref for OwnedFields {
    type Target = Set;

    fn deref(&self) -> &Set {
        &self.0.set
    }
}

impl Serialize for OwnedFields {
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

    fn read(text: &str) -> OwnedFields {
        OwnedFields::read(serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn an_unchanged_set_is_written_as_it_was_read() {
        // Not in our own formatting.
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
    fn a_cached_result_equals_a_computed_one() {
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
        assert!(Rc::ptr_eq(&make().0, &make().0), "the result is cached");
        assert_eq!(*read(r#"{"f:a":{},"f:b":{}}"#), set(r#"{"f:a":{},"f:b":{}}"#));
    }

    #[test]
    fn the_cache_of_a_thread_is_bounded() {
        for index in 0..2 * MAX_CACHED {
            read(&format!(r#"{{"f:{index}":{{}}}}"#));
        }
        assert!(CACHE.with_borrow(HashMap::len) <= MAX_CACHED);
    }
}
