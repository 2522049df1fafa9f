//! Prints objects as YAML, JSON or names.

use serde::Serialize as _;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value};

use crate::args::ObjectOutput;

/// Returns the items of a list, or the object itself.
pub(super) fn items(mut response: Value) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, list_kind) = (text(&response["apiVersion"]), text(&response["kind"]));
    let Some(Value::Array(mut items)) = response.get_mut("items").map(Value::take) else {
        return vec![response];
    };
    // The items of a typed list do not repeat their kind.
    let kind = list_kind.strip_suffix("List").unwrap_or(&list_kind);
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.entry("apiVersion").or_insert_with(|| api_version.clone().into());
        item.entry("kind").or_insert_with(|| kind.into());
    }
    items
}

/// Removes `metadata.managedFields`, which few readers need.
pub(super) fn hide_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Returns kind, group and name of an object, such as `fleet.agones.dev/arena`.
pub(super) fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let name = text(&object["metadata"]["name"]);
    match text(&object["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Returns the text of an object, with a line break at its end.
pub(super) fn object(object: &Value, format: ObjectOutput) -> anyhow::Result<String> {
    let mut text = match format {
        ObjectOutput::Yaml => serde_saphyr::to_string(object)?.trim_end().to_owned(),
        ObjectOutput::Json => {
            let mut json = Vec::new();
            let pretty = PrettyFormatter::with_indent(b"    ");
            object.serialize(&mut Serializer::with_formatter(&mut json, pretty))?;
            String::from_utf8(json)?
        }
        ObjectOutput::Name | ObjectOutput::Wide => name(object),
    };
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_of_a_list_have_their_kind() {
        let list = json!({"apiVersion": "agones.dev/v1", "kind": "FleetList", "items": [{"metadata": {"name": "a"}}]});
        let found: Vec<String> = items(list).iter().map(name).collect();
        assert_eq!(found, ["fleet.agones.dev/a"]);
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
        assert_eq!(items(object.clone()), [object]);
    }
}
