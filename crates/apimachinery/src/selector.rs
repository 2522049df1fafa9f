//! Label and field selectors.
//!
//! Both are parsed once per request, with kube-apiserver's error messages, and then matched against each object.

mod fields;
mod labels;
mod lexer;
#[cfg(test)]
mod property_tests;
mod syntax;

pub use fields::{FieldSelector, Selectable};
pub use labels::{LabelSelector, Operator, Requirement};

/// The reason why a selector is invalid; always a client error (400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(pub String);
