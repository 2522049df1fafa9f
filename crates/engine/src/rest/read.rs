//! What does one object look like?

use serde_json::{Map, Value, json};

use super::{Call, Reply};
use crate::resource::Resource;
use crate::status::Answer;

/// Answers with the object that the request names.
pub(super) fn answer(call: &Call) -> Answer<Reply> {
    super::list::check_version(call, call.query.get("resourceVersion"))?;
    let object = call.find()?;
    Ok(call.show(200, &object))
}

/// Leaves only the metadata of an object.
pub(super) fn metadata_only(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// Shows objects as rows of a table, with the columns that every kind has.
pub(super) fn table(call: &Call, objects: &[Value]) -> Value {
    let include = call.query.get("includeObject").unwrap_or("Metadata");
    table_of(&call.resource, include, objects)
}

/// Shows objects as rows of a table that carry as much of them as is asked for.
pub(super) fn table_of(_resource: &Resource, include: &str, objects: &[Value]) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells =
                json!([object["metadata"]["name"], object["metadata"]["creationTimestamp"]]);
            let mut row = Map::new();
            row.insert("cells".to_owned(), cells);
            match include {
                "None" => {}
                "Object" => drop(row.insert("object".to_owned(), object.clone())),
                _ => drop(row.insert("object".to_owned(), metadata_only(object))),
            }
            Value::Object(row)
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ],
        "rows": rows,
    })
}
