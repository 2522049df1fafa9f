//! The kinds from the outside: documents go in at the door, and come out admitted or refused.

mod crds;
mod documents;
mod fleets;
