//! Lists the fields that an endpoint resets to their previous value, whatever a request sets.

use super::Set;
use std::sync::LazyLock;

static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["status"]]));
static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"]]));
static POD: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ])
});
static DEPLOYMENT: LazyLock<Set> =
    LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata", "labels"]]));
static CUSTOM: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata"]]));
static NONE: LazyLock<Set> = LazyLock::new(Set::default);

/// Returns the fields that writes through an endpoint (the main one or `status`) cannot change.
pub fn reset(is_builtin: bool, kind: &str, has_status: bool, subresource: &str) -> &'static Set {
    match (subresource, kind) {
        ("" | "finalize", _) if has_status => &STATUS,
        ("status", "Pod") if is_builtin => &POD,
        ("status", "Deployment") if is_builtin => &DEPLOYMENT,
        ("status", _) if is_builtin => &SPEC,
        ("status", _) => &CUSTOM,
        _ => &NONE,
    }
}
