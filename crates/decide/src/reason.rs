//! Why a decision is what it is.

use std::fmt::Display;

/// A reason a person can read, and a program can match on.
///
/// Each area has its own enum of reasons; one value becomes the sentence (`Display`), the condition, the event, the
/// log field and the metric label. The code is stable, the sentence may improve freely.
pub trait Reason: Display {
    /// Names the reason in one stable CamelCase word.
    fn code(&self) -> &'static str;
}
