//! The types of Kubernetes' kinds and of custom resources.
//!
//! [`Types`] holds the types of many kinds in one arena: those of Kubernetes' own kinds, parsed from the repository's data at
//! first use, or those of one custom resource. A [`Shape`] is a cheap cursor into it. Decoding, patches, server-side apply and
//! OpenAPI all walk objects along a shape.

mod data;
pub use data::descriptions;
pub mod decode;
mod structural;
pub mod times;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

pub use structural::{OrBool, Structural};

/// The types of many kinds.
#[derive(Debug, Default)]
pub struct Types {
    nodes: Vec<TypeNode>,
    names: BTreeMap<&'static str, TypeId>,
    kinds: BTreeMap<String, TypeId>,
}

type TypeId = u32;
type Text = Cow<'static, str>;

/// One type or field: its kind of value, and how it merges.
#[derive(Debug, Default)]
struct TypeNode {
    value_type: ValueType,
    /// The published name of the type; empty for an anonymous type.
    name: &'static str,
    /// The named type that this field refers to.
    target: Option<TypeRef>,
    /// Sorted by name.
    fields: Vec<(Text, TypeId)>,
    /// The indices in `fields` of those that are serialized even when unset.
    always: Vec<u16>,
    /// The element type of a list or a map.
    content: Option<TypeId>,
    attributes: Attributes,
}

#[derive(Clone, Copy, Debug)]
enum TypeRef {
    Here(TypeId),
    /// In Kubernetes' own types.
    BuiltIn(TypeId),
}

#[derive(Debug, Default)]
struct Attributes {
    /// The field's Go type, as decoding errors name it.
    go: &'static str,
    /// The embedded Go structs that contain the field, as decoding errors name them.
    through: &'static str,
    /// The field's protobuf number, prefixed by those of the embedded structs that contain it.
    number: &'static str,
    format: Text,
    is_required: bool,
    omit_empty: bool,
    omit_zero: bool,
    preserves_unknown: bool,
    is_embedded: bool,
    list_type: Option<ListType>,
    list_keys: Vec<Text>,
    map_type: Option<MapType>,
    patch_strategy: &'static str,
    merge_key: &'static str,
    values: Vec<&'static str>,
    default: Option<Value>,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueType {
    /// Any value.
    #[default]
    Any,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// A map with declared fields, or with arbitrary keys and one type of value.
    Object,
    /// A list.
    List,
    /// A quantity such as `100m`, as a string or a number.
    Quantity,
    /// A number or a string, such as a port.
    IntOrString,
}

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// Items are values without duplicates.
    Set,
    /// Items are identified by their keys.
    Map,
}

/// How a map is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The map is replaced as a whole.
    Atomic,
    /// Entries are merged one by one.
    Granular,
}

/// A cursor into [`Types`].
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    types: &'a Types,
    node: &'a TypeNode,
}

impl Types {
    /// Returns the types of Kubernetes' own kinds, parsed at first use.
    pub fn builtin() -> &'static Types {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(data::read)
    }

    /// Finds the shape of a kind in this arena.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Shape<'_>> {
        self.kinds.get(&format!("{group}/{version}/{kind}")).map(|id| self.at(*id))
    }

    /// Finds a type by its published name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<Shape<'_>> {
        self.names.get(name).map(|id| self.at(*id))
    }

    /// Returns the groups, versions and kinds that a named type is served as.
    pub fn kinds_of(&self, name: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        let id = self.names.get(name).copied();
        self.kinds.iter().filter(move |(_, kind)| Some(**kind) == id).filter_map(|(gvk, _)| {
            let mut parts = gvk.split('/');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    }

    /// Iterates over the named types, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = Shape<'_>> {
        self.names.values().map(|id| self.at(*id))
    }

    /// Returns the shape of the only kind of an arena built from a custom resource's schema.
    pub fn root(&self) -> Option<Shape<'_>> {
        self.nodes.last().map(|node| Shape { types: self, node })
    }

    fn at(&self, id: TypeId) -> Shape<'_> {
        Shape { types: self, node: &self.nodes[id as usize] }
    }

    fn push(&mut self, node: TypeNode) -> TypeId {
        self.nodes.push(node);
        TypeId::try_from(self.nodes.len() - 1).expect("an arena holds thousands of nodes")
    }
}

impl<'a> Shape<'a> {
    /// Returns the kind of value.
    pub fn value_type(self) -> ValueType {
        self.resolved().node.value_type
    }

    /// Returns the published name of the type; empty when it has none.
    pub fn name(self) -> &'static str {
        self.resolved().node.name
    }

    /// Returns a declared field.
    pub fn field(self, name: &str) -> Option<Shape<'a>> {
        let at = self.resolved();
        let index = at.node.fields.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok()?;
        Some(at.types.at(at.node.fields[index].1))
    }

    /// Returns the declared fields, sorted by name.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> {
        let at = self.resolved();
        at.node.fields.iter().map(move |(name, id)| (name.as_ref(), at.types.at(*id)))
    }

    /// Returns whether any field is declared.
    pub fn has_fields(self) -> bool {
        !self.resolved().node.fields.is_empty()
    }

    /// Returns the shape of a list's items.
    pub fn items(self) -> Option<Shape<'a>> {
        self.content(ValueType::List)
    }

    /// Returns the shape of the values of a map with arbitrary keys.
    pub fn values(self) -> Option<Shape<'a>> {
        self.content(ValueType::Object)
    }

    /// Returns the shape of a declared field, or else of any value of the map.
    pub fn entry(self, name: &str) -> Option<Shape<'a>> {
        self.field(name).or_else(|| self.values())
    }

    fn content(self, of: ValueType) -> Option<Shape<'a>> {
        let at = self.resolved();
        let id = at.node.content.filter(|_| at.node.value_type == of)?;
        Some(at.types.at(id))
    }

    /// Returns how a list merges under server-side apply; atomic by default.
    pub fn list_type(self) -> ListType {
        self.attribute(|a| a.list_type).unwrap_or(ListType::Atomic)
    }

    /// Returns how a list is declared to merge.
    pub fn declared_list_type(self) -> Option<ListType> {
        self.attribute(|a| a.list_type)
    }

    /// Returns the fields that identify an item of a list of type map.
    pub fn list_keys(self) -> &'a [Cow<'static, str>] {
        &self.node.attributes.list_keys
    }

    /// Returns how a map merges under server-side apply; granular by default.
    pub fn map_type(self) -> MapType {
        self.attribute(|a| a.map_type).unwrap_or(MapType::Granular)
    }

    /// Returns how a map is declared to merge.
    pub fn declared_map_type(self) -> Option<MapType> {
        self.attribute(|a| a.map_type)
    }

    /// Returns how a list is declared to merge by the field itself, not by its type.
    pub fn own_list_type(self) -> Option<ListType> {
        self.node.attributes.list_type
    }

    /// Returns how a map is declared to merge by the field itself, not by its type.
    pub fn own_map_type(self) -> Option<MapType> {
        self.node.attributes.map_type
    }

    /// Returns the name of the type that this field refers to, if it has a named type.
    pub fn reference(self) -> Option<&'static str> {
        Some(self.name()).filter(|name| !name.is_empty())
    }

    /// Returns whether server-side apply replaces the value as a whole.
    pub fn is_atomic(self) -> bool {
        match self.value_type() {
            ValueType::List => self.list_type() == ListType::Atomic,
            ValueType::Object => self.map_type() == MapType::Atomic,
            ValueType::Any
            | ValueType::String
            | ValueType::Integer
            | ValueType::Number
            | ValueType::Boolean
            | ValueType::Quantity
            | ValueType::IntOrString => false,
        }
    }

    /// Returns the strategic merge patch strategies: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(self) -> impl Iterator<Item = &'static str> {
        self.node.attributes.patch_strategy.split(',').filter(|s| !s.is_empty())
    }

    /// Returns the field that identifies a list's items in a strategic merge patch.
    pub fn merge_key(self) -> Option<&'static str> {
        Some(self.node.attributes.merge_key).filter(|k| !k.is_empty())
    }

    /// Returns the published default.
    pub fn default(self) -> Option<&'a Value> {
        self.node.attributes.default.as_ref()
    }

    /// Returns the published format, such as `int32`.
    pub fn format(self) -> &'a str {
        match self.node.attributes.format.as_ref() {
            "" => self.resolved().node.attributes.format.as_ref(),
            own => own,
        }
    }

    /// Returns the Go type as decoding errors name it, with its pointer.
    pub fn go(self) -> &'static str {
        self.node.attributes.go
    }

    /// Returns the field's protobuf number, prefixed by those of the embedded structs that contain it.
    pub fn number(self) -> &'static str {
        self.node.attributes.number
    }

    /// Returns the embedded Go structs that contain the field, as decoding errors name them.
    pub fn through(self) -> &'static str {
        self.node.attributes.through
    }

    /// Returns the fields that are serialized even when unset.
    pub fn always(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> {
        let at = self.resolved();
        at.node.always.iter().map(move |index| {
            let (name, id) = &at.node.fields[usize::from(*index)];
            (name.as_ref(), at.types.at(*id))
        })
    }

    /// Returns whether the field is a pointer in Go, so that unset and zero differ.
    pub fn is_pointer(self) -> bool {
        self.node.attributes.go.starts_with('*')
    }

    /// Returns whether an empty value is omitted (`omitempty`).
    pub fn omits_empty(self) -> bool {
        self.node.attributes.omit_empty
    }

    /// Returns whether a struct without content is omitted (`omitzero`).
    pub fn omits_zero(self) -> bool {
        self.node.attributes.omit_zero
    }

    /// Returns whether the field is required.
    pub fn is_required(self) -> bool {
        self.node.attributes.is_required
    }

    /// Returns the known values of an enumeration.
    pub fn known_values(self) -> &'a [&'static str] {
        &self.node.attributes.values
    }

    /// Returns whether undeclared fields are preserved.
    pub fn preserves_unknown(self) -> bool {
        self.node.attributes.preserves_unknown
    }

    /// Returns whether a whole object, with kind and metadata, is embedded here.
    pub fn is_embedded(self) -> bool {
        self.node.attributes.is_embedded
    }

    fn attribute<T>(self, read: impl Fn(&Attributes) -> Option<T>) -> Option<T> {
        read(&self.node.attributes).or_else(|| read(&self.resolved().node.attributes))
    }

    fn resolved(self) -> Shape<'a> {
        match self.node.target {
            None => self,
            Some(TypeRef::Here(id)) => self.types.at(id).resolved(),
            Some(TypeRef::BuiltIn(id)) => Types::builtin().at(id).resolved(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_ports_are_found() {
        let pod = Types::builtin().kind("", "v1", "Pod").unwrap();
        let containers = pod.field("spec").and_then(|s| s.field("containers")).unwrap();
        assert_eq!(containers.list_type(), ListType::Map);
        assert_eq!(containers.merge_key(), Some("name"));
        let ports = containers.items().and_then(|c| c.field("ports")).unwrap();
        assert_eq!(ports.list_keys(), ["containerPort", "protocol"]);
        let protocol = ports.items().and_then(|p| p.field("protocol")).unwrap();
        assert_eq!(protocol.default(), Some(&Value::from("TCP")));
        assert_eq!(protocol.known_values(), ["SCTP", "TCP", "UDP"]);
        assert_eq!(protocol.go(), "v1.Protocol");
    }

    #[test]
    fn labels_are_maps_and_selectors_are_atomic() {
        let types = Types::builtin();
        let deployment = types.kind("apps", "v1", "Deployment").unwrap();
        let labels = deployment.field("metadata").and_then(|m| m.field("labels")).unwrap();
        assert_eq!(labels.values().map(Shape::value_type), Some(ValueType::String));
        assert!(!labels.is_atomic());
        let selector = deployment.field("spec").and_then(|s| s.field("selector")).unwrap();
        assert!(selector.is_atomic());
        assert_eq!(selector.name(), "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
    }

    #[test]
    fn quantities_and_ports_are_distinct() {
        let types = Types::builtin();
        let service = types.named("io.k8s.api.core.v1.ServicePort").unwrap();
        assert_eq!(
            service.field("targetPort").map(Shape::value_type),
            Some(ValueType::IntOrString)
        );
        let resources = types.named("io.k8s.api.core.v1.ResourceRequirements").unwrap();
        let limits = resources.field("limits").and_then(Shape::values).unwrap();
        assert_eq!(limits.value_type(), ValueType::Quantity);
    }
}
