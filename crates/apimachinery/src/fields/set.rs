//! A set of field paths, serialized as FieldsV1.
//!
//! Stored as the same tree with the same keys as FieldsV1, so that reading and writing need no translation.

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// A set of paths to fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: BTreeMap<Box<str>, SetNode>,
}

/// One path element: whether the path that ends here is a member, and the longer paths below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNode {
    pub is_member: bool,
    pub children: Set,
}

impl SetNode {
    pub fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }
}

impl Set {
    /// Builds a set of paths whose elements are field names.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let mut at = &mut set;
            for (index, name) in path.iter().enumerate() {
                let node = at.nodes.entry(format!("f:{name}").into()).or_default();
                node.is_member |= index + 1 == path.len();
                at = &mut node.children;
            }
        }
        set
    }

    /// Returns whether the set has no paths.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn node(&self, element: &str) -> Option<&SetNode> {
        self.nodes.get(element)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&str, &SetNode)> {
        self.nodes.iter().map(|(element, node)| (element.as_ref(), node))
    }

    /// Inserts a subtree; an empty one is ignored.
    pub fn put(&mut self, element: Box<str>, node: SetNode) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Returns all paths that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.add(other);
        union
    }

    /// Adds the paths of another set.
    pub fn add(&mut self, other: &Self) {
        for (element, node) in &other.nodes {
            match self.nodes.get_mut(element) {
                Some(mine) => {
                    mine.is_member |= node.is_member;
                    mine.children.add(&node.children);
                }
                None => {
                    self.nodes.insert(element.clone(), node.clone());
                }
            }
        }
    }

    /// Returns all paths that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, node) in &self.nodes {
            let Some(theirs) = other.nodes.get(element) else { continue };
            let is_member = node.is_member && theirs.is_member;
            both.put(
                element.clone(),
                SetNode { is_member, children: node.children.intersection(&theirs.children) },
            );
        }
        both
    }

    /// Returns all paths that are not in another set.
    pub fn difference(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(other);
        difference
    }

    /// Returns whether all paths of another set are in this one.
    pub fn contains(&self, other: &Self) -> bool {
        other.nodes.iter().all(|(element, theirs)| {
            self.nodes.get(element).is_some_and(|node| {
                (node.is_member || !theirs.is_member) && node.children.contains(&theirs.children)
            })
        })
    }

    /// Returns whether the sets have a path in common.
    pub fn intersects(&self, other: &Self) -> bool {
        other.nodes.iter().any(|(element, theirs)| {
            self.nodes.get(element).is_some_and(|node| {
                (node.is_member && theirs.is_member) || node.children.intersects(&theirs.children)
            })
        })
    }

    /// Removes the paths of another set, but not longer paths that start with them.
    pub fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain(|element, node| {
            if let Some(theirs) = other.nodes.get(element) {
                node.is_member &= !theirs.is_member;
                node.children.subtract(&theirs.children);
            }
            !node.is_empty()
        });
    }

    /// Removes the paths of another set and all longer paths that start with them.
    pub fn without_subtrees(mut self, other: &Self) -> Self {
        self.remove_subtrees(other);
        self
    }

    pub fn remove_subtrees(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain(|element, node| {
            let Some(theirs) = other.nodes.get(element) else { return true };
            if theirs.is_member {
                return false;
            }
            node.children.remove_subtrees(&theirs.children);
            !node.is_empty()
        });
    }

    /// Removes the fields that identify an object or that only the server sets, which have no owner.
    pub fn strip_metadata(&mut self) {
        const OWN: [&str; 9] = [
            "f:name",
            "f:namespace",
            "f:creationTimestamp",
            "f:selfLink",
            "f:uid",
            "f:clusterName",
            "f:generation",
            "f:managedFields",
            "f:resourceVersion",
        ];
        self.nodes.retain(|element, node| match element.as_ref() {
            "f:apiVersion" | "f:kind" => {
                node.is_member = false;
                !node.is_empty()
            }
            "f:metadata" => {
                node.is_member = false;
                node.children.nodes.retain(|element, node| {
                    node.is_member &= !OWN.contains(&element.as_ref());
                    !node.is_empty()
                });
                !node.is_empty()
            }
            _ => true,
        });
    }

    /// Returns the first paths, at most `at_most`: shorter ones first.
    pub fn paths(&self, at_most: usize) -> Vec<Vec<&str>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths, at_most);
        paths
    }

    fn collect_paths<'a>(
        &'a self,
        prefix: &mut Vec<&'a str>,
        paths: &mut Vec<Vec<&'a str>>,
        at_most: usize,
    ) {
        let left = at_most.saturating_sub(paths.len());
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.is_member).take(left) {
            prefix.push(element);
            paths.push(prefix.clone());
            prefix.pop();
        }
        for (element, node) in &self.nodes {
            if paths.len() >= at_most {
                return;
            }
            prefix.push(element);
            node.children.collect_paths(prefix, paths, at_most);
            prefix.pop();
        }
    }
}

impl Serialize for Set {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Members { set: self, with_self: false }.serialize(serializer)
    }
}

/// Serializes the members of a set, and optionally the path they are below.
struct Members<'a> {
    set: &'a Set,
    with_self: bool,
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        if self.with_self && !self.set.is_empty() {
            members.serialize_entry(".", &Set::default())?;
        }
        for (element, node) in &self.set.nodes {
            let below = Members { set: &node.children, with_self: node.is_member };
            members.serialize_entry(element, &below)?;
        }
        members.end()
    }
}

impl<'de> Deserialize<'de> for Set {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Below::deserialize(deserializer).map(|below| below.children)
    }
}

/// The value of a path element in FieldsV1.
struct Below {
    has_self: bool,
    children: Set,
}

impl<'de> Deserialize<'de> for Below {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BelowVisitor)
    }
}

struct BelowVisitor;

impl<'de> Visitor<'de> for BelowVisitor {
    type Value = Below;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields as FieldsV1 writes them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Below, A::Error> {
        let mut below = Below { has_self: false, children: Set::default() };
        while let Some(element) = map.next_key::<Box<str>>()? {
            if &*element == "." {
                map.next_value::<IgnoredAny>()?;
                below.has_self = true;
                continue;
            }
            if !matches!(element.as_bytes(), [b'f' | b'k' | b'v' | b'i', b':', ..]) {
                return Err(A::Error::custom(format_args!("{element} is no path element")));
            }
            let Below { has_self, children } = map.next_value()?;
            let is_member = has_self || children.is_empty();
            below.children.nodes.insert(element, SetNode { is_member, children });
        }
        Ok(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(fields: &Value) -> Set {
        Set::deserialize(fields).unwrap()
    }

    #[test]
    fn sets_round_trip() {
        for fields in [
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}}, "f:spec": {"f:b": {"k:{\"name\":\"x\"}": {".": {}, "f:c": {}}}}}),
            json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}),
        ] {
            assert_eq!(json!(set(&fields)), fields);
        }
        assert!(Set::deserialize(&json!({"x": {}})).is_err());
        assert!(Set::deserialize(&json!([])).is_err());
    }

    #[test]
    fn differences_keep_longer_paths_unless_subtrees_are_removed() {
        let all = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let some = set(&json!({"f:a": {}}));
        assert_eq!(json!(all.difference(&some)), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert_eq!(json!(all.clone().without_subtrees(&some)), json!({"f:c": {}}));
        assert_eq!(all.intersection(&some), some);
        assert_eq!(all.difference(&some).union(&some), all);
    }

    #[test]
    fn identifying_fields_are_stripped() {
        let mut fields = set(&json!({"f:kind": {}, "f:apiVersion": {},
            "f:metadata": {".": {}, "f:name": {}, "f:labels": {".": {}, "f:a": {}}}}));
        fields.strip_metadata();
        assert_eq!(json!(fields), json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}));
    }
}
