//! What others call.
