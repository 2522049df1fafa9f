//! AutoScalePolicies: the size of a service, by thresholds.

pub mod observe;
