//! What is left of an object without some of its fields?

use super::element;
use super::set::Set;
use super::typing::{Atom, atom, entry};
use crate::schema::Shape;
use serde_json::Value;

/// Removes the fields in `doomed`. A list or map that loses its last entry is null, for its owner may still want it.
pub fn remove(object: &mut Value, doomed: &Set, shape: Option<Shape<'_>>) {
    if doomed.is_empty() {
        return;
    }
    match (atom(shape, Some(object)), object) {
        (Atom::Map(shape), Value::Object(members)) => members.retain(|name, member| {
            let Some(node) = doomed.node(&element::field(name)) else { return true };
            if node.is_member {
                return false;
            }
            remove(member, &node.children, entry(shape, name).0);
            hollow_out(member);
            true
        }),
        (Atom::List(list), Value::Array(items)) => items.retain_mut(|item| {
            let Some(node) =
                element::item(list, item).ok().and_then(|element| doomed.node(&element))
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

fn hollow_out(value: &mut Value) {
    let is_hollow = match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if is_hollow {
        *value = Value::Null;
    }
}

/// Drops what [`remove`] left null, which is where the whole object is not.
pub fn drop_hollow(object: &mut Value, whole: &Value) {
    // The items of lists have no null to drop and may have moved: they stay as they are.
    let Some(members) = object.as_object_mut() else { return };
    members.retain(|name, member| {
        let before = whole.get(name).unwrap_or(&Value::Null);
        drop_hollow(member, before);
        !member.is_null() || before.is_null()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    #[test]
    fn fields_and_items_go_and_the_rest_stays() {
        let mut pod = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostname": "h", "containers": [{"name": "a", "image": "i"}, {"name": "b"}]}});
        let doomed = json!({"f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}});
        remove(
            &mut pod,
            &serde_json::from_value(doomed).unwrap(),
            Types::builtin().kind("", "v1", "Pod"),
        );
        assert_eq!(
            pod,
            json!({"metadata": {"labels": null}, "spec": {"hostname": "h", "containers": [{"name": "a"}]}})
        );
    }
}
