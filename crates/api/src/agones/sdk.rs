//! The labels and annotations that a game server's own process may set.

use std::collections::BTreeMap;

use crate::{Problem, labels};

/// What the keys of such labels and annotations start with.
pub const SDK_PREFIX: &str = "agones.dev/sdk-";

/// Returns the full key of a label; or what is wrong with the key, the full key, or the value.
pub fn sdk_label(key: &str, value: &str) -> Result<String, Problem> {
    full_key(key, value, |map| labels::labels(map, "label"))
}

/// Returns the full key of an annotation; or what is wrong with the key or the full key.
pub fn sdk_annotation(key: &str, value: &str) -> Result<String, Problem> {
    full_key(key, value, |map| labels::annotations(map, "annotation"))
}

/// A key with a slash is well formed, and is not after a prefix with a slash of its own; so both are checked.
fn full_key(
    key: &str,
    value: &str,
    problems: impl Fn(&BTreeMap<String, String>) -> Vec<Problem>,
) -> Result<String, Problem> {
    let full = format!("{SDK_PREFIX}{key}");
    for key in [key, &full] {
        let map = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        if let Some(problem) = problems(&map).into_iter().next() {
            return Err(problem);
        }
    }
    Ok(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_must_be_well_formed_with_and_without_the_prefix() {
        assert_eq!(sdk_label("map", "desert-1").unwrap(), "agones.dev/sdk-map");
        assert_eq!(sdk_annotation("map", "any text!").unwrap(), "agones.dev/sdk-map");
        for (key, value) in [
            ("", "a"),
            ("a b", "a"),
            ("example.com/a", "a"),
            (&*"a".repeat(60), "a"),
            ("a", "b c"),
            ("-a", "b"),
        ] {
            assert!(sdk_label(key, value).is_err(), "{key}={value}");
        }
        assert!(sdk_annotation("example.com/a", "a").is_err());
    }
}
