//! Collects the fields that an object sets.

use super::element;
use super::set::{Set, SetNode};
use super::typing::{Atom, atom, entry};
use crate::schema::Shape;
use serde_json::Value;

/// Collects the paths of all fields that `object` sets.
pub fn collect(object: &Value, shape: Option<Shape<'_>>) -> Set {
    node(object, shape).children
}

fn node(value: &Value, shape: Option<Shape<'_>>) -> SetNode {
    match (atom(shape, Some(value)), value) {
        (Atom::Leaf, _) => SetNode { is_member: true, children: Set::default() },
        (Atom::Map(shape), Value::Object(members)) => {
            let mut children = Set::default();
            for (name, member) in members {
                let (shape, is_declared) = entry(shape, name);
                let mut node = node(member, shape);
                let is_empty = member.is_null() || member.as_object().is_some_and(|m| m.is_empty());
                node.is_member |= is_empty || !is_declared;
                children.put(element::field(name), node);
            }
            SetNode { is_member: false, children }
        }
        (Atom::List(list), Value::Array(items)) => {
            let mut children = Set::default();
            for item in items {
                let Ok(element) = element::item(list, item) else { continue };
                // Items with equal keys cannot be distinguished, so they are owned as one.
                let mut below = match children.node(&element) {
                    Some(_) => SetNode::default(),
                    None => node(item, list.items()),
                };
                below.is_member = true;
                children.put(element, below);
            }
            SetNode { is_member: false, children }
        }
        (Atom::Map(_) | Atom::List(_), _) => SetNode::default(),
    }
}

/// Adds all declared fields on the path to each member, since removing the last field of a struct removes the struct.
pub fn with_named_fields(set: &Set, shape: Option<Shape<'_>>) -> Set {
    let mut named = Set::default();
    for (element, node) in set.nodes() {
        let (below, is_declared) = match element.strip_prefix("f:") {
            Some(name) => entry(shape, name),
            None => (shape.and_then(Shape::items), false),
        };
        let is_member = node.is_member || (is_declared && !node.children.is_empty());
        named.put(
            element.into(),
            SetNode { is_member, children: with_named_fields(&node.children, below) },
        );
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    #[test]
    fn an_applied_pod_owns_the_fields_it_sets() {
        let pod = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}, "spec": {
            "nodeSelector": {"k": "v"},
            "containers": [{"name": "a", "image": "i", "args": ["1"], "resources": {}, "ports": [{"containerPort": 80}]}]}});
        let shape = Types::builtin().kind("", "v1", "Pod");
        assert_eq!(
            json!(collect(&pod, shape)),
            json!({"f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}}, "f:spec": {
                "f:nodeSelector": {},
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                    "f:resources": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {},
                    "f:containerPort": {}}}}}}})
        );
    }

    #[test]
    fn without_a_type_maps_are_granular_and_lists_are_not() {
        let fields = collect(&json!({"a": {"b": [1, {"c": 2}], "d": null}}), None);
        assert_eq!(json!(fields), json!({"f:a": {".": {}, "f:b": {}, "f:d": {}}}));
    }
}
