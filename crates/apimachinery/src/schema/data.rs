//! Parses the types of Kubernetes' own kinds.
//!
//! The data has one line per type and field (`cargo xtask generate` writes it). It is parsed once, without copying names.
//! Descriptions are in a separate file that only `kubectl explain` needs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::{ListType, MapType, TypeId, TypeNode, TypeRef, Types, ValueType};

static TYPES: &str = include_str!("../../data/types.txt");
static DESCRIPTIONS: &str = include_str!("../../data/descriptions.txt");

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// Parses all types.
pub(super) fn read() -> Types {
    let mut types = Types::default();
    // Types refer to each other in both directions, so every name gets its node first.
    for line in TYPES.lines().filter(|l| l.starts_with('T')) {
        let name = line.split('\t').nth(1).unwrap_or_default();
        let id = types.push(TypeNode { name, ..TypeNode::default() });
        types.names.insert(name, id);
    }
    let mut current = 0;
    for line in TYPES.lines() {
        let mut parts = line.split('\t');
        let (mark, name) = (parts.next(), parts.next().unwrap_or_default());
        let mut node = typed(&mut types, parts.next().unwrap_or_default());
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if key == "gvk" {
                types.kinds.insert(value.to_owned(), types.names[name]);
            }
            attribute(&mut node, key, value);
        }
        if mark == Some("T") {
            current = types.names[name];
            node.name = name;
            match name {
                QUANTITY => node.value_type = ValueType::Quantity,
                INT_OR_STRING => node.value_type = ValueType::IntOrString,
                _ => {}
            }
            types.nodes[current as usize] = node;
        } else {
            let id = types.push(node);
            types.nodes[current as usize].fields.push((Cow::Borrowed(name), id));
        }
    }
    for node in &mut types.nodes {
        node.fields.sort();
    }
    mark_always(&mut types);
    types
}

/// Marks the fields that Go serializes even when unset: structs, and those without `omitempty`.
fn mark_always(types: &mut Types) {
    for index in 0..types.nodes.len() {
        let always = (0u16..)
            .zip(&types.nodes[index].fields)
            .filter(|(_, (_, id))| {
                let field = types.at(*id);
                let is_struct = !field.is_pointer()
                    && (field.has_fields()
                        || matches!(
                            field.value_type(),
                            ValueType::Quantity | ValueType::IntOrString | ValueType::Any
                        )
                        || field.format() == "date-time");
                !field.omits_zero() && (is_struct || !field.omits_empty())
            })
            .map(|(place, _)| place)
            .collect();
        types.nodes[index].always = always;
    }
}

fn typed(types: &mut Types, text: &'static str) -> TypeNode {
    if let Some(name) = text.strip_prefix('&') {
        return TypeNode { target: Some(TypeRef::Here(types.names[name])), ..TypeNode::default() };
    }
    for (prefix, value_type) in [("[]", ValueType::List), ("{}", ValueType::Object)] {
        if let Some(content) = text.strip_prefix(prefix) {
            let content = typed(types, content);
            let content = Some(content_id(types, content));
            return TypeNode { value_type, content, ..TypeNode::default() };
        }
    }
    let (name, format) = text.split_once(':').unwrap_or((text, ""));
    let value_type = match name {
        "string" => ValueType::String,
        "integer" => ValueType::Integer,
        "number" => ValueType::Number,
        "boolean" => ValueType::Boolean,
        "object" => ValueType::Object,
        _ => ValueType::Any,
    };
    let mut node = TypeNode { value_type, ..TypeNode::default() };
    node.attributes.format = Cow::Borrowed(format);
    node
}

/// Returns the node of an element type; a reference to a named type needs none of its own.
fn content_id(types: &mut Types, content: TypeNode) -> TypeId {
    match content.target {
        Some(TypeRef::Here(id)) => id,
        Some(TypeRef::BuiltIn(_)) | None => types.push(content),
    }
}

fn attribute(node: &mut TypeNode, key: &str, value: &'static str) {
    let to = &mut node.attributes;
    match key {
        "go" => to.go = value,
        "in" => to.through = value,
        "pb" => to.number = value,
        "oe" => to.omit_empty = true,
        "oz" => to.omit_zero = true,
        "req" => to.is_required = true,
        "ps" => to.patch_strategy = value,
        "mk" => to.merge_key = value,
        "lt" => to.list_type = list_type(value),
        "mt" => to.map_type = map_type(value),
        "lk" => to.list_keys = value.split(',').map(Cow::Borrowed).collect(),
        "enum" => to.values = value.split(',').collect(),
        "def" => to.default = serde_json::from_str::<Value>(value).ok(),
        _ => {}
    }
}

pub(super) fn list_type(name: &str) -> Option<ListType> {
    match name {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

pub(super) fn map_type(name: &str) -> Option<MapType> {
    match name {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

/// Returns the descriptions of a type and its fields, parsed at first use; the type's own has the empty name.
pub fn descriptions(type_name: &str) -> Option<&'static BTreeMap<&'static str, String>> {
    type All = BTreeMap<&'static str, BTreeMap<&'static str, String>>;
    static ALL: OnceLock<All> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut all = All::new();
        let mut current = "";
        for line in DESCRIPTIONS.lines() {
            let mut parts = line.splitn(3, '\t');
            let (mark, name) = (parts.next(), parts.next().unwrap_or_default());
            let text = parts.next().unwrap_or_default();
            let text = text.replace("\\n", "\n").replace("\\\\", "\\");
            let field = if mark == Some("T") {
                current = name;
                ""
            } else {
                name
            };
            all.entry(current).or_default().insert(field, text);
        }
        all
    });
    all.get(type_name)
}
