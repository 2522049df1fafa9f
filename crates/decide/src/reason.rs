//! Reasons of decisions.

use std::fmt::Display;

/// A reason that people can read and programs can match on.
///
/// Each area has its own enum of reasons; one value becomes the sentence (`Display`), the condition, the event, the
/// log field and the metric label. The code is stable, the sentence may improve freely.
pub trait Reason: Display {
    /// Returns the reason as one stable CamelCase word.
    fn code(&self) -> &'static str;
}
