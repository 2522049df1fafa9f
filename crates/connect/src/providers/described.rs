//! What a cloud says about the nodes of a group, read as a NodeGroup would be that says it in its template and its annotations.

use std::collections::BTreeMap;

use api::plimsoll::node_group::{NodeGroup, NodeGroupSpec, Options, Template};
use decide::nodes::{self as decided, GroupOptions};
use serde_json::Map;

/// Returns the NodeGroup.
pub(super) fn node_group(template: Template, annotations: BTreeMap<String, String>) -> NodeGroup {
    let spec = NodeGroupSpec {
        min: 0,
        max: 0,
        price: None,
        priority: 0,
        all_or_nothing: false,
        template: Some(template),
        options: Options::default(),
        provider: Map::new(),
    };
    let mut group = NodeGroup::new("", spec);
    group.metadata.annotations = Some(annotations);
    group
}

/// Returns the shape and the settings of the group's nodes. There is no shape where cores and memory are not known.
pub(super) fn read(group: &NodeGroup) -> (Option<decided::Template>, GroupOptions) {
    let read = api::nodes::group(group);
    let is_known = |shape: &decided::Template| shape.capacity.cpu > 0 && shape.capacity.memory > 0;
    (read.template.filter(is_known), read.options)
}
