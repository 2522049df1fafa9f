//! What does an object of a kind look like?
//!
//! [`Types`] holds the shapes of many kinds in one arena: those of Kubernetes' own kinds, read from the data in the
//! repository at first use, or those of one custom resource. A [`Shape`] is a cheap cursor into it. Decoding,
//! patches, server-side apply and OpenAPI all walk objects along a shape.

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

/// The shapes of many kinds.
#[derive(Debug, Default)]
pub struct Types {
    nodes: Vec<Node>,
    names: BTreeMap<&'static str, NodeId>,
    kinds: BTreeMap<String, NodeId>,
}

type NodeId = u32;
type Text = Cow<'static, str>;

/// A place in an object: what is there, and how it merges.
#[derive(Debug, Default)]
struct Node {
    what: What,
    /// The published name of the type; empty for a place that is not a type of its own.
    name: &'static str,
    /// The named type that describes the content of this place.
    target: Option<Target>,
    /// Sorted by name.
    fields: Vec<(Text, NodeId)>,
    /// The places in `fields` that are written even when nothing is there.
    always: Vec<u16>,
    /// What a list or a map holds.
    content: Option<NodeId>,
    attributes: Attributes,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Here(NodeId),
    /// In Kubernetes' own types.
    BuiltIn(NodeId),
}

#[derive(Debug, Default)]
struct Attributes {
    /// The field's type in Go, as decoding errors name it.
    go: &'static str,
    /// The embedded Go structs that the field comes through, as decoding errors name them.
    through: &'static str,
    /// The field's number in protobuf, after those of the embedded structs that it comes through.
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

/// The kind of value that belongs in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Anything at all.
    #[default]
    Any,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A map with known fields, or with arbitrary keys and one kind of value.
    Object,
    /// A list.
    List,
    /// A quantity such as `100m`, as a string or a number.
    Quantity,
    /// A number or a string, such as a port.
    IntOrString,
}

/// How two writers' versions of a list are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Each item is a value of its own.
    Set,
    /// Each item has an identity in its keys.
    Map,
}

/// How two writers' versions of a map are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The map is one value.
    Atomic,
    /// Each entry is a value of its own.
    Granular,
}

/// A cursor into [`Types`].
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    types: &'a Types,
    node: &'a Node,
}

impl Types {
    /// The types of Kubernetes' own kinds, read at first use.
    pub fn builtin() -> &'static Types {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(data::read)
    }

    /// Finds the shape of a kind of this arena.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<Shape<'_>> {
        self.kinds.get(&format!("{group}/{version}/{kind}")).map(|id| self.at(*id))
    }

    /// Finds a type by its published name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<Shape<'_>> {
        self.names.get(name).map(|id| self.at(*id))
    }

    /// The groups, versions and kinds that a named type is served as.
    pub fn kinds_of(&self, name: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        let id = self.names.get(name).copied();
        self.kinds.iter().filter(move |(_, kind)| Some(**kind) == id).filter_map(|(gvk, _)| {
            let mut parts = gvk.split('/');
            Some((parts.next()?, parts.next()?, parts.next()?))
        })
    }

    /// Goes through the named types, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = Shape<'_>> {
        self.names.values().map(|id| self.at(*id))
    }

    /// The shape of the one kind of an arena that was made from a custom resource's schema.
    pub fn root(&self) -> Option<Shape<'_>> {
        self.nodes.last().map(|node| Shape { types: self, node })
    }

    fn at(&self, id: NodeId) -> Shape<'_> {
        Shape { types: self, node: &self.nodes[id as usize] }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::try_from(self.nodes.len() - 1).expect("an arena holds thousands of nodes")
    }
}

impl<'a> Shape<'a> {
    /// The kind of value here.
    pub fn what(self) -> What {
        self.resolved().node.what
    }

    /// The published name of the type here; empty when it has none.
    pub fn name(self) -> &'static str {
        self.resolved().node.name
    }

    /// Looks up a field that the type declares.
    pub fn field(self, name: &str) -> Option<Shape<'a>> {
        let at = self.resolved();
        let index = at.node.fields.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok()?;
        Some(at.types.at(at.node.fields[index].1))
    }

    /// The declared fields, sorted by name.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> {
        let at = self.resolved();
        at.node.fields.iter().map(move |(name, id)| (name.as_ref(), at.types.at(*id)))
    }

    /// Whether any field is declared.
    pub fn has_fields(self) -> bool {
        !self.resolved().node.fields.is_empty()
    }

    /// What an item of the list here looks like.
    pub fn items(self) -> Option<Shape<'a>> {
        self.content(What::List)
    }

    /// What a value of the map here looks like, where keys are arbitrary.
    pub fn values(self) -> Option<Shape<'a>> {
        self.content(What::Object)
    }

    /// The declared field of that name, or else the shape of any value of the map.
    pub fn entry(self, name: &str) -> Option<Shape<'a>> {
        self.field(name).or_else(|| self.values())
    }

    fn content(self, of: What) -> Option<Shape<'a>> {
        let at = self.resolved();
        let id = at.node.content.filter(|_| at.node.what == of)?;
        Some(at.types.at(id))
    }

    /// How a list here merges under server-side apply; undeclared is atomic.
    pub fn list_type(self) -> ListType {
        self.attribute(|a| a.list_type).unwrap_or(ListType::Atomic)
    }

    /// How a list here is declared to merge, if it is declared.
    pub fn declared_list_type(self) -> Option<ListType> {
        self.attribute(|a| a.list_type)
    }

    /// The fields that identify an item of a list of type map.
    pub fn list_keys(self) -> &'a [Cow<'static, str>] {
        &self.node.attributes.list_keys
    }

    /// How a map here merges under server-side apply; undeclared is granular.
    pub fn map_type(self) -> MapType {
        self.attribute(|a| a.map_type).unwrap_or(MapType::Granular)
    }

    /// How a map here is declared to merge, if it is declared.
    pub fn declared_map_type(self) -> Option<MapType> {
        self.attribute(|a| a.map_type)
    }

    /// How a list is declared to merge at this very place, not by its type.
    pub fn own_list_type(self) -> Option<ListType> {
        self.node.attributes.list_type
    }

    /// How a map is declared to merge at this very place, not by its type.
    pub fn own_map_type(self) -> Option<MapType> {
        self.node.attributes.map_type
    }

    /// The name of the type that this place refers to, if it does not describe its content itself.
    pub fn reference(self) -> Option<&'static str> {
        Some(self.name()).filter(|name| !name.is_empty())
    }

    /// Whether what is here is one value to server-side apply.
    pub fn is_atomic(self) -> bool {
        match self.what() {
            What::List => self.list_type() == ListType::Atomic,
            What::Object => self.map_type() == MapType::Atomic,
            What::Any
            | What::String
            | What::Integer
            | What::Number
            | What::Boolean
            | What::Quantity
            | What::IntOrString => false,
        }
    }

    /// The strategies of strategic merge patches here: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(self) -> impl Iterator<Item = &'static str> {
        self.node.attributes.patch_strategy.split(',').filter(|s| !s.is_empty())
    }

    /// The field that identifies a list's items in a strategic merge patch.
    pub fn merge_key(self) -> Option<&'static str> {
        Some(self.node.attributes.merge_key).filter(|k| !k.is_empty())
    }

    /// The published default.
    pub fn default(self) -> Option<&'a Value> {
        self.node.attributes.default.as_ref()
    }

    /// The published format, such as `int32`.
    pub fn format(self) -> &'a str {
        match self.node.attributes.format.as_ref() {
            "" => self.resolved().node.attributes.format.as_ref(),
            own => own,
        }
    }

    /// The name of the type in Go, as decoding errors give it; with its pointer.
    pub fn go(self) -> &'static str {
        self.node.attributes.go
    }

    /// The field's number in protobuf, after those of the embedded structs that it comes through.
    pub fn number(self) -> &'static str {
        self.node.attributes.number
    }

    /// The embedded Go structs that the field comes through, as decoding errors name them.
    pub fn through(self) -> &'static str {
        self.node.attributes.through
    }

    /// The fields that are written even when nothing is there.
    pub fn always(self) -> impl Iterator<Item = (&'a str, Shape<'a>)> {
        let at = self.resolved();
        at.node.always.iter().map(move |index| {
            let (name, id) = &at.node.fields[usize::from(*index)];
            (name.as_ref(), at.types.at(*id))
        })
    }

    /// Whether the field is a pointer in Go, so that nothing and zero differ.
    pub fn is_pointer(self) -> bool {
        self.node.attributes.go.starts_with('*')
    }

    /// Whether an empty value is left out when the object is written.
    pub fn omits_empty(self) -> bool {
        self.node.attributes.omit_empty
    }

    /// Whether a struct without content is left out when the object is written.
    pub fn omits_zero(self) -> bool {
        self.node.attributes.omit_zero
    }

    /// Whether the field must be there.
    pub fn is_required(self) -> bool {
        self.node.attributes.is_required
    }

    /// The values that are known for an enumeration.
    pub fn known_values(self) -> &'a [&'static str] {
        &self.node.attributes.values
    }

    /// Whether fields that are not declared are kept.
    pub fn preserves_unknown(self) -> bool {
        self.node.attributes.preserves_unknown
    }

    /// Whether a whole object, with kind and metadata, is embedded here.
    pub fn is_embedded(self) -> bool {
        self.node.attributes.is_embedded
    }

    fn attribute<T>(self, read: impl Fn(&Attributes) -> Option<T>) -> Option<T> {
        read(&self.node.attributes).or_else(|| read(&self.resolved().node.attributes))
    }

    fn resolved(self) -> Shape<'a> {
        match self.node.target {
            None => self,
            Some(Target::Here(id)) => self.types.at(id).resolved(),
            Some(Target::BuiltIn(id)) => Types::builtin().at(id).resolved(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_can_be_walked_to_its_ports() {
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
        assert_eq!(labels.values().map(Shape::what), Some(What::String));
        assert!(!labels.is_atomic());
        let selector = deployment.field("spec").and_then(|s| s.field("selector")).unwrap();
        assert!(selector.is_atomic());
        assert_eq!(selector.name(), "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
    }

    #[test]
    fn quantities_and_ports_are_told_apart() {
        let types = Types::builtin();
        let service = types.named("io.k8s.api.core.v1.ServicePort").unwrap();
        assert_eq!(service.field("targetPort").map(Shape::what), Some(What::IntOrString));
        let resources = types.named("io.k8s.api.core.v1.ResourceRequirements").unwrap();
        let limits = resources.field("limits").and_then(Shape::values).unwrap();
        assert_eq!(limits.what(), What::Quantity);
    }
}
