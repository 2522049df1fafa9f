//! Property tests of patches.

use super::{json, merge, strategic};
use crate::fields::merge::merge as lay_over;
use crate::fields::{collect::collect, compare::compare};
use crate::schema::Types;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Generates values without null, which means removal in a patch.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..5i32).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-d]", value(), 0..4)
        .prop_map(|m| Value::Object(m.into_iter().collect()))
}

/// Returns the merge patch that turns one object into another.
fn difference(from: &Map<String, Value>, to: &Map<String, Value>) -> Value {
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, wanted) in to {
        match (from.get(name), wanted) {
            (Some(Value::Object(from)), Value::Object(to)) => {
                patch.insert(name.clone(), difference(from, to));
            }
            (Some(same), _) if same == wanted => {}
            _ => {
                patch.insert(name.clone(), wanted.clone());
            }
        }
    }
    Value::Object(patch)
}

fn merged(object: &Value, patch: &Value) -> Value {
    let mut result = object.clone();
    merge::apply(&mut result, patch).unwrap();
    result
}

fn changed(object: &Value, operations: Value) -> Value {
    let mut result = object.clone();
    json::Patch::decode(operations).unwrap().apply(&mut result).unwrap();
    result
}

proptest! {
    #[test]
    fn the_difference_of_two_objects_turns_one_into_the_other(a in object(), b in object()) {
        let patch = difference(a.as_object().unwrap(), b.as_object().unwrap());
        prop_assert_eq!(merged(&a, &patch), b);
    }

    #[test]
    fn a_merge_patch_is_idempotent(a in object(), patch in object()) {
        let once = merged(&a, &patch);
        prop_assert_eq!(merged(&once, &patch), once);
    }

    #[test]
    fn without_a_shape_a_strategic_merge_is_a_merge(a in object(), b in object()) {
        let patch = difference(a.as_object().unwrap(), b.as_object().unwrap());
        let mut result = a;
        strategic::apply(&mut result, patch, None).unwrap();
        prop_assert_eq!(result, b);
    }

    #[test]
    fn removing_an_added_member_restores_the_object(a in object(), added in value()) {
        let there_and_back = json!([{"op": "add", "path": "/x", "value": added}, {"op": "test", "path": "/x", "value": added},
                                    {"op": "remove", "path": "/x"}]);
        prop_assert_eq!(changed(&a, there_and_back), a);
    }

    #[test]
    fn moving_is_copying_and_removing(a in object(), moved in value()) {
        let mut a = a;
        a["x"] = moved;
        let copied = json!([{"op": "copy", "from": "/x", "path": "/y"}, {"op": "remove", "path": "/x"}]);
        prop_assert_eq!(changed(&a, json!([{"op": "move", "from": "/x", "path": "/y"}])), changed(&a, copied));
    }

    #[test]
    fn a_json_patch_never_panics(a in object(), op in "[a-z]{3,7}|add|remove|replace|move|copy|test", path in "(/[a-d0-3~-]{0,2}){0,4}", from in "(/[a-d0-3]{0,2}){0,3}", v in value()) {
        let patch = json!([{"op": op, "path": path, "from": from, "value": v}]);
        let mut result = a;
        let _ = json::Patch::decode(patch).unwrap().apply(&mut result);
    }

    #[test]
    fn merging_contains_the_applied_fields(live in object(), applied in object()) {
        let outcome = lay_over(&live, &applied, None);
        let wanted = collect(&applied, None);
        prop_assert!(wanted.difference(&collect(&outcome, None)).is_empty());
        prop_assert_eq!(lay_over(&outcome, &applied, None), outcome);
    }

    #[test]
    fn an_object_equals_itself(a in object()) {
        let same = compare(&a, &a, Types::builtin().kind("", "v1", "Pod"));
        prop_assert!(same.added.is_empty() && same.removed.is_empty() && same.modified.is_empty());
    }

    #[test]
    fn added_fields_are_removed_fields_in_the_other_direction(a in object(), b in object()) {
        let (there, back) = (compare(&a, &b, None), compare(&b, &a, None));
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.modified, back.modified);
    }
}
