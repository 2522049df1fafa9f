//! Removes owned fields from an object.

use super::element;
use super::set::Set;
use super::typing::{Atom, atom, entry};
use crate::schema::Shape;
use serde_json::Value;

/// Removes the fields in `removed`. A list or map that loses its last entry becomes null, since another manager may still own it.
pub fn remove(object: &mut Value, removed: &Set, shape: Option<Shape<'_>>) {
    if removed.is_empty() {
        return;
    }
    match (atom(shape, Some(object)), object) {
        (Atom::Map(shape), Value::Object(members)) => members.retain(|name, member| {
            let Some(node) = removed.node(&element::field(name)) else { return true };
            if node.is_member {
                return false;
            }
            remove(member, &node.children, entry(shape, name).0);
            clear_contents(member);
            true
        }),
        (Atom::List(list), Value::Array(items)) => items.retain_mut(|item| {
            let Some(node) =
                element::item(list, item).ok().and_then(|element| removed.node(&element))
            else {
                return true;
            };
            if node.is_member {
                return false;
            }
            remove(item, &node.children, list.items());
            true
        }),
        _ => {}
    }
}

fn clear_contents(value: &mut Value) {
    let is_hollow = match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_hollow {
        *value = Value::Null;
    }
}

/// Drops values that [`remove`] set to null and that are not null in the whole object.
pub fn drop_emptied(object: &mut Value, whole: &Value) {
    // Lists have no null items to drop and their items may have moved, so they are left alone.
    let Some(members) = object.as_object_mut() else { return };
    members.retain(|name, member| {
        let before = whole.get(name).unwrap_or(&Value::Null);
        drop_emptied(member, before);
        !member.is_null() || before.is_null()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    #[test]
    fn fields_and_items_are_removed() {
        let mut pod = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostname": "h", "containers": [{"name": "a", "image": "i"}, {"name": "b"}]}});
        let removed = json!({"f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}});
        remove(
            &mut pod,
            &serde_json::from_value(removed).unwrap(),
            Types::builtin().kind("", "v1", "Pod"),
        );
        assert_eq!(
            pod,
            json!({"metadata": {"labels": null}, "spec": {"hostname": "h", "containers": [{"name": "a"}]}})
        );
    }
}
