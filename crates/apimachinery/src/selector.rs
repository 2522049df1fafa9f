//! Which objects does a caller mean: selection by labels and by fields.
//!
//! Both are parsed once per request, with the words the real API server uses to refuse, and then asked once per object.

mod fields;
mod labels;
#[cfg(test)]
mod laws;
mod lexer;
mod syntax;

pub use fields::{Fields, Selectable};
pub use labels::{Labels, Operator, Requirement};

/// Says why a selector was refused; always the caller's mistake (400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);
