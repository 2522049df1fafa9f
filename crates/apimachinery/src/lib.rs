//! Kubernetes API machinery as pure functions and data: schemas, defaults and validation of built-in kinds, patches, field
//! ownership, selectors, tables, protobuf.

pub mod builtin;
pub mod crd;
pub mod depth;
pub mod fields;
#[doc(hidden)]
pub mod fuzzing;
pub mod members;
pub mod offline;
pub mod patch;
pub mod protobuf;
pub mod quote;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod table;
