//! The kinds from the outside: documents are admitted or refused.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod causes;
mod crds;
mod documents;
mod fleets;
mod nonsense;
