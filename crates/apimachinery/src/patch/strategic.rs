//! Strategic merge patch.
//!
//! A merge patch that knows the kind's lists: where the kind declares a merge key, items are merged by that key instead of
//! replacing the list. Directives in the patch (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) control the rest.

mod list;

use super::{Error, go_value, type_name};
use crate::schema::Shape;
use serde_json::{Map, Value};
use std::collections::HashSet;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

type JsonMap = Map<String, Value>;

/// Merges `patch` into `object`, whose kind has the given shape. After an error `object` is partially changed.
pub fn apply(object: &mut Value, patch: Value, shape: Option<Shape<'_>>) -> Result<(), Error> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => JsonMap::new(),
        other => {
            return Err(Error::Malformed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                type_name(&other)
            )));
        }
    };
    let original = match object.take() {
        Value::Object(original) => original,
        _ => JsonMap::new(),
    };
    *object = Value::Object(merge_map(original, patch, shape)?);
    Ok(())
}

fn merge_map(
    mut original: JsonMap,
    mut patch: JsonMap,
    shape: Option<Shape<'_>>,
) -> Result<JsonMap, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(JsonMap::new()),
            // Merging is the default, yet requesting it explicitly is an error.
            _ => Err(unknown_directive(&patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    list::order(&mut original, &mut patch, shape)?;
    for (name, value) in patch {
        merge_member(&mut original, name, value, shape)?;
    }
    Ok(original)
}

fn unknown_directive(patch: &JsonMap) -> Error {
    let directive = patch.get(DIRECTIVE).map(go_value).unwrap_or_default();
    Error::Unexpected(format!(
        "unknown patch type: {directive} in map: {}",
        go_value(&Value::Object(patch.clone()))
    ))
}

/// Merges one member of a patch; `shape` is that of the object it is in.
fn merge_member(
    original: &mut JsonMap,
    name: String,
    value: Value,
    shape: Option<Shape<'_>>,
) -> Result<(), Error> {
    let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
        None => (name, false),
        Some(rest) => match rest.strip_prefix('/') {
            Some(name) => (name.to_owned(), true),
            None => return Err(bad_primitive_list()),
        },
    };
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    let field = shape.and_then(|shape| shape.entry(&name));
    let merged = match (original.remove(&name), value) {
        (Some(Value::Object(original)), Value::Object(patch)) if !replaces(field) => {
            Some(Value::Object(merge_map(original, patch, field)?))
        }
        (Some(Value::Object(_)), Value::Object(patch)) => Some(Value::Object(patch)),
        (Some(Value::Array(original)), Value::Array(patch)) if deletes || merges(field) => {
            Some(Value::Array(list::merge(original, patch, field, deletes)?))
        }
        (Some(Value::Array(_)), Value::Array(patch)) => Some(Value::Array(patch)),
        // There is no list to delete from.
        (original, _) if deletes => original,
        (_, mut patch) => {
            discard_nulls(&mut patch);
            without_directives(patch)
        }
    };
    if let Some(merged) = merged {
        original.insert(name, merged);
    }
    Ok(())
}

fn bad_primitive_list() -> Error {
    Error::Malformed("invalid patch format of primitive list".into())
}

fn replaces(field: Option<Shape<'_>>) -> bool {
    field.is_some_and(|field| field.patch_strategies().any(|strategy| strategy == "replace"))
}

fn merges(field: Option<Shape<'_>>) -> bool {
    field.is_some_and(|field| field.patch_strategies().any(|strategy| strategy == "merge"))
}

/// Applies `$retainKeys`: removes members that it does not list.
fn retain_keys(original: &mut JsonMap, patch: &mut JsonMap) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || Error::Malformed("invalid patch format of retainKeys".into());
    let Value::Array(retained) = retained else { return Err(bad()) };
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_retained = |name: &str| retained.contains(name);
    let is_directive = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !is_directive(name) && !is_retained(name))
    {
        return Err(bad());
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// Removes null members at any depth, which have no effect where there is nothing to remove.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes directives from a value that is added as a whole; an object with `$patch` is removed entirely.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter_map(|(name, member)| Some((name, without_directives(member)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    fn patched(kind: (&str, &str, &str), object: &Value, patch: &Value) -> Result<Value, Error> {
        let shape = Types::builtin().kind(kind.0, kind.1, kind.2);
        assert!(shape.is_some());
        let mut result = object.clone();
        apply(&mut result, patch.clone(), shape).map(|()| result)
    }

    const POD: (&str, &str, &str) = ("", "v1", "Pod");

    #[test]
    fn lists_with_a_merge_key_merge_and_others_are_replaced() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]}});
        for (patch, wanted) in [
            (
                json!({"containers": [{"name": "b", "image": "2"}]}),
                json!([{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]),
            ),
            (
                json!({"containers": [{"name": "c"}]}),
                json!([{"name": "c"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]),
            ),
            (
                json!({"containers": [{"name": "a", "args": ["y"], "image": null}]}),
                json!([{"name": "a", "args": ["y"]}, {"name": "b"}]),
            ),
            (json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!([{"name": "b"}])),
            (json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}), json!([{"name": "z"}])),
            (
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                json!([{"name": "b"}, {"name": "a", "image": "1", "args": ["x"]}]),
            ),
            (
                json!({"$setElementOrder/containers": [{"name": "n"}, {"name": "b"}], "containers": [{"name": "n"}]}),
                json!([{"name": "n"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]),
            ),
        ] {
            let result = patched(POD, &pod, &json!({"spec": patch})).unwrap();
            assert_eq!(result["spec"]["containers"], wanted, "{patch}");
        }
    }

    #[test]
    fn primitive_lists_with_merge_strategy_add_and_delete_items() {
        let pod = json!({"metadata": {"finalizers": ["a", "b"]}});
        for (patch, wanted) in [
            (json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
            (json!({"finalizers": ["b"]}), json!(["a", "b"])),
            (json!({"$deleteFromPrimitiveList/finalizers": ["a"]}), json!(["b"])),
            (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        ] {
            let result = patched(POD, &pod, &json!({"metadata": patch})).unwrap();
            assert_eq!(result["metadata"]["finalizers"], wanted, "{patch}");
        }
    }

    #[test]
    fn maps_merge_unless_a_directive_replaces_or_deletes_them() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        for (patch, wanted) in [
            (json!({"labels": {"b": null, "c": "3"}}), json!({"a": "1", "c": "3"})),
            (json!({"labels": {"$patch": "replace", "c": "3"}}), json!({"c": "3"})),
            (json!({"labels": {"$patch": "delete"}}), json!({})),
            (json!({"labels": {"$retainKeys": ["a"], "a": "9"}}), json!({"a": "9"})),
            (json!({"labels": null}), json!(null)),
        ] {
            let result = patched(POD, &pod, &json!({"metadata": patch})).unwrap();
            assert_eq!(result["metadata"]["labels"], wanted, "{patch}");
        }
        let deployment = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        let result = patched(("apps", "v1", "Deployment"), &deployment, &patch).unwrap();
        assert_eq!(result["spec"]["strategy"], json!({"type": "Recreate"}));
    }

    #[test]
    fn nulls_in_added_values_are_ignored() {
        let patch = json!({"spec": {"nodeSelector": {"a": null, "b": "c"}, "containers": [{"name": "a", "image": null}]}});
        let result = patched(POD, &json!({}), &patch).unwrap();
        assert_eq!(
            result,
            json!({"spec": {"nodeSelector": {"b": "c"}, "containers": [{"name": "a"}]}})
        );
    }

    #[test]
    fn messages_about_invalid_patches_match_kube_apiserver() {
        let pod =
            json!({"spec": {"containers": [{"name": "a"}]}, "metadata": {"labels": {"a": "b"}}});
        for (patch, wanted) in [
            (
                json!([1]),
                Error::Malformed(
                    "json: cannot unmarshal array into Go value of type map[string]interface {}"
                        .into(),
                ),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "foo"}}}),
                Error::Unexpected("unknown patch type: foo in map: map[$patch:foo]".into()),
            ),
            (
                json!({"spec": {"containers": [{"image": "a"}]}}),
                Error::Unexpected(
                    "map: map[image:a] does not contain declared merge key: name".into(),
                ),
            ),
            (
                json!({"metadata": {"labels": {"$retainKeys": "a"}}}),
                Error::Malformed("invalid patch format of retainKeys".into()),
            ),
        ] {
            assert_eq!(patched(POD, &pod, &patch).unwrap_err(), wanted, "{patch}");
        }
    }
}
