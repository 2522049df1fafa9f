//! How are Kubernetes' own types read?
//!
//! The data is a text of one line per type and field (`cargo xtask generate` writes it). It is read once, without
//! copying names out of it. Descriptions are in a file of their own that only explaining reads.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use super::{ListType, MapType, Node, NodeId, Target, Types, What};

static TYPES: &str = include_str!("../../data/types.txt");
static DESCRIPTIONS: &str = include_str!("../../data/descriptions.txt");

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// Reads all types.
pub(super) fn read() -> Types {
    let mut types = Types::default();
    // Types refer to each other in both directions, so every name gets its place first.
    for line in TYPES.lines().filter(|l| l.starts_with('T')) {
        let name = line.split('\t').nth(1).unwrap_or_default();
        let id = types.push(Node { name, ..Node::default() });
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
                QUANTITY => node.what = What::Quantity,
                INT_OR_STRING => node.what = What::IntOrString,
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

/// Notes which fields Go writes even when they are unset: those that do not say otherwise, and structs.
fn mark_always(types: &mut Types) {
    for index in 0..types.nodes.len() {
        let always = (0u16..)
            .zip(&types.nodes[index].fields)
            .filter(|(_, (_, id))| {
                let field = types.at(*id);
                let is_struct = !field.is_pointer()
                    && (field.has_fields()
                        || matches!(field.what(), What::Quantity | What::IntOrString | What::Any)
                        || field.format() == "date-time");
                !field.omits_zero() && (is_struct || !field.omits_empty())
            })
            .map(|(place, _)| place)
            .collect();
        types.nodes[index].always = always;
    }
}

fn typed(types: &mut Types, text: &'static str) -> Node {
    if let Some(name) = text.strip_prefix('&') {
        return Node { target: Some(Target::Here(types.names[name])), ..Node::default() };
    }
    for (prefix, what) in [("[]", What::List), ("{}", What::Object)] {
        if let Some(content) = text.strip_prefix(prefix) {
            let content = typed(types, content);
            let content = Some(content_id(types, content));
            return Node { what, content, ..Node::default() };
        }
    }
    let (name, format) = text.split_once(':').unwrap_or((text, ""));
    let what = match name {
        "string" => What::String,
        "integer" => What::Integer,
        "number" => What::Number,
        "boolean" => What::Boolean,
        "object" => What::Object,
        _ => What::Any,
    };
    let mut node = Node { what, ..Node::default() };
    node.attributes.format = Cow::Borrowed(format);
    node
}

/// A reference to a named type needs no node of its own.
fn content_id(types: &mut Types, content: Node) -> NodeId {
    match content.target {
        Some(Target::Here(id)) => id,
        Some(Target::BuiltIn(_)) | None => types.push(content),
    }
}

fn attribute(node: &mut Node, key: &str, value: &'static str) {
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

/// The descriptions of a type and its fields, read at first use; the type's own is under the empty name.
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
