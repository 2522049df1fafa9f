//! The schema of a custom resource.
//!
//! The part of OpenAPI that a CustomResourceDefinition may use, in the form that pruning, defaulting and validation walk.
//! Whether the schema is structural is checked when the definition is written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Number, Value};

use super::{TypeId, TypeNode, TypeRef, Types, ValueType, data};

/// The schema of one value in a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Structural {
    #[serde(rename = "type")]
    pub kind: String,
    pub format: String,
    pub description: String,
    pub properties: BTreeMap<String, Structural>,
    pub additional_properties: Option<OrBool>,
    pub items: Option<Box<Structural>>,
    pub required: Vec<String>,
    #[serde(rename = "enum")]
    pub values: Vec<Value>,
    /// Absent and null are distinct.
    #[serde(deserialize_with = "some")]
    pub default: Option<Value>,
    pub nullable: bool,
    pub minimum: Option<Number>,
    pub maximum: Option<Number>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<Number>,
    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub pattern: String,
    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Box<Structural>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserves_unknown: bool,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub is_embedded: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub is_int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub map_type: Option<String>,
    #[serde(rename = "x-kubernetes-validations")]
    pub rules: Vec<Value>,
    /// The properties that have a default, so that defaulting can skip the others.
    #[serde(skip)]
    pub defaulted: Vec<String>,
}

/// A schema, or whether any value is allowed.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OrBool {
    Bool(bool),
    Schema(Box<Structural>),
}

/// One bound of a range: the number, and whether the range excludes it.
pub(super) type Bound = (f64, bool);

fn some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Structural {
    /// Parses a schema from a CustomResourceDefinition.
    pub fn read(schema: &Value) -> Result<Self, serde_json::Error> {
        let mut schema = Self::deserialize(schema)?;
        schema.note_defaults();
        Ok(schema)
    }

    fn note_defaults(&mut self) {
        let defaulted = self.properties.iter().filter(|(_, property)| property.default.is_some());
        self.defaulted = defaulted.map(|(name, _)| name.clone()).collect();
        self.properties.values_mut().for_each(Self::note_defaults);
        self.items.iter_mut().for_each(|items| items.note_defaults());
        if let Some(OrBool::Schema(values)) = &mut self.additional_properties {
            values.note_defaults();
        }
    }

    /// Returns the schema of a member.
    pub fn member(&self, name: &str) -> Option<&Structural> {
        self.properties.get(name).or_else(|| self.values_schema())
    }

    /// Returns the schema of the values of a map with arbitrary keys.
    pub fn values_schema(&self) -> Option<&Structural> {
        match &self.additional_properties {
            Some(OrBool::Schema(schema)) => Some(schema),
            Some(OrBool::Bool(_)) | None => None,
        }
    }

    /// Returns whether a map allows any key.
    pub fn keeps_all(&self) -> bool {
        matches!(self.additional_properties, Some(OrBool::Bool(true)))
    }

    /// Returns whether it or a nested schema has CEL rules.
    pub fn has_rules(&self) -> bool {
        let inside = |s: Option<&Structural>| s.is_some_and(Structural::has_rules);
        !self.rules.is_empty()
            || self.properties.values().any(Structural::has_rules)
            || inside(self.items.as_deref())
            || inside(self.values_schema())
    }

    /// Returns whether it constrains a value as a whole with other schemas.
    pub fn combines(&self) -> bool {
        let lists = [&self.all_of, &self.any_of, &self.one_of];
        self.not.is_some() || lists.iter().any(|list| !list.is_empty())
    }

    /// Returns whether it or a nested schema has a default.
    pub fn has_defaults(&self) -> bool {
        let inside = |s: Option<&Structural>| s.is_some_and(Structural::has_defaults);
        self.default.is_some()
            || self.properties.values().any(Structural::has_defaults)
            || inside(self.items.as_deref())
            || inside(self.values_schema())
    }

    /// Returns the bounds of a number.
    pub fn bounds(&self) -> (Option<Bound>, Option<Bound>) {
        let bound = |n: &Option<Number>, exclusive| {
            n.as_ref().and_then(Number::as_f64).map(|n| (n, exclusive))
        };
        (bound(&self.minimum, self.exclusive_minimum), bound(&self.maximum, self.exclusive_maximum))
    }

    /// Builds the types of a custom resource with this schema.
    pub fn shape(&self) -> Types {
        let mut types = Types::default();
        let mut root = node(self, &mut types, true);
        root.value_type = ValueType::Object;
        types.push(root);
        types
    }
}

fn push(schema: &Structural, types: &mut Types) -> TypeId {
    let node = node(schema, types, schema.is_embedded);
    types.push(node)
}

fn node(schema: &Structural, types: &mut Types, is_object_root: bool) -> TypeNode {
    let mut node = TypeNode { value_type: value_type(schema), ..TypeNode::default() };
    for (name, property) in &schema.properties {
        let id = push(property, types);
        node.fields.push((Cow::Owned(name.clone()), id));
    }
    if is_object_root {
        add_object_fields(&mut node, types);
    }
    node.fields.sort();
    let content = schema.items.as_deref().or_else(|| schema.values_schema());
    node.content = content.map(|c| push(c, types));
    if node.value_type == ValueType::Object
        && node.content.is_none()
        && matches!(schema.additional_properties, Some(OrBool::Bool(true)))
    {
        node.content = Some(types.push(TypeNode::default()));
    }
    let to = &mut node.attributes;
    to.format = Cow::Owned(schema.format.clone());
    to.preserves_unknown = schema.preserves_unknown;
    to.is_embedded = schema.is_embedded;
    to.list_type = schema.list_type.as_deref().and_then(data::list_type);
    to.map_type = schema.map_type.as_deref().and_then(data::map_type);
    to.list_keys = schema.list_keys.iter().cloned().map(Cow::Owned).collect();
    to.default.clone_from(&schema.default);
    node
}

/// Adds the fields that every object has, whatever its schema declares.
fn add_object_fields(node: &mut TypeNode, types: &mut Types) {
    node.fields.retain(|(name, _)| !matches!(name.as_ref(), "apiVersion" | "kind" | "metadata"));
    for name in ["apiVersion", "kind"] {
        let id = types.push(TypeNode { value_type: ValueType::String, ..TypeNode::default() });
        node.fields.push((Cow::Borrowed(name), id));
    }
    let meta = Types::builtin().names["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    let id = types.push(TypeNode { target: Some(TypeRef::BuiltIn(meta)), ..TypeNode::default() });
    node.fields.push((Cow::Borrowed("metadata"), id));
}

fn value_type(schema: &Structural) -> ValueType {
    if schema.is_int_or_string {
        return ValueType::IntOrString;
    }
    match schema.kind.as_str() {
        "object" => ValueType::Object,
        "array" => ValueType::List,
        "string" => ValueType::String,
        "integer" => ValueType::Integer,
        "number" => ValueType::Number,
        "boolean" => ValueType::Boolean,
        _ => ValueType::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListType, Shape};
    use serde_json::json;

    #[test]
    fn a_custom_resource_has_metadata_and_its_own_lists() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string", "default": "a"}}}},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}}}});
        let types = Structural::read(&schema).unwrap().shape();
        let root = types.root().unwrap();
        let labels = root.field("metadata").and_then(|m| m.field("labels")).unwrap();
        assert_eq!(labels.values().map(Shape::value_type), Some(ValueType::String));
        let ports = root.field("spec").and_then(|s| s.field("ports")).unwrap();
        assert_eq!(ports.list_type(), ListType::Map);
        assert_eq!(ports.list_keys(), ["name"]);
        assert!(ports.items().unwrap().field("name").unwrap().default().is_some());
        assert!(root.field("spec").unwrap().field("any").unwrap().preserves_unknown());
    }
}
