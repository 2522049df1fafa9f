//! Path elements of field sets: how list items are identified, and how paths are displayed.

use crate::quote::quote;
use crate::schema::{ListType, Shape};
use serde_json::{Map, Value};

/// Returns the path element of a map's entry.
pub fn field(name: &str) -> Box<str> {
    let mut element = String::with_capacity(name.len() + 2);
    element.push_str("f:");
    element.push_str(name);
    element.into()
}

/// Returns the path element of a list's item, or the reason why it has none.
pub fn item(list: Shape<'_>, item: &Value) -> Result<Box<str>, String> {
    if list.list_type() == ListType::Set {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            scalar => Ok(format!("v:{scalar}").into()),
        };
    }
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut keys = Map::new();
    for key in list.list_keys() {
        let default = || list.items().and_then(|items| items.field(key)).and_then(Shape::default);
        if let Some(value) = members.get(key.as_ref()).or_else(default) {
            keys.insert(key.to_string(), value.clone());
        }
    }
    if keys.is_empty() {
        let names: Vec<String> = list.list_keys().iter().map(|key| quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            names.join(" ")
        ));
    }
    Ok(format!("k:{}", Value::Object(keys)).into())
}

/// The longest path that is displayed.
const LONGEST: usize = 4096;

/// Formats a path for display, as in `.spec.containers[name="a"].image`; a very long one is truncated.
pub fn display(path: &[&str]) -> String {
    let mut shown = String::new();
    for element in path {
        shown.push_str(&display_element(element));
        if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
            shown.truncate(end);
            shown.push_str("...");
            break;
        }
    }
    shown
}

/// Formats one path element for display.
pub fn display_element(element: &str) -> String {
    match element.split_at(2.min(element.len())) {
        ("f:", name) => format!(".{name}"),
        ("k:", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{name}={}", display_value(value)))
                .collect();
            format!("[{}]", keys.join(","))
        }
        ("v:", value) => {
            let value: Value = serde_json::from_str(value).unwrap_or_default();
            format!("[={}]", display_value(&value))
        }
        (_, index) => format!("[{index}]"),
    }
}

fn display_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Types;
    use serde_json::json;

    #[test]
    fn items_are_identified_by_keys_and_their_defaults() {
        let pod = Types::builtin().kind("", "v1", "Pod").unwrap();
        let containers = pod.field("spec").unwrap().field("containers").unwrap();
        let ports = containers.items().unwrap().field("ports").unwrap();
        let port = item(ports, &json!({"containerPort": 80})).unwrap();
        assert_eq!(port.as_ref(), r#"k:{"containerPort":80,"protocol":"TCP"}"#);
        assert_eq!(display_element(&port), r#"[containerPort=80,protocol="TCP"]"#);
        assert_eq!(item(containers, &json!({"image": "x"})).unwrap().as_ref(), r#"k:{"name":""}"#);
        assert!(
            item(containers, &json!(null)).unwrap_err().contains("may not have a null element")
        );
        let finalizers = pod.field("metadata").unwrap().field("finalizers").unwrap();
        let finalizer = item(finalizers, &json!("a/b")).unwrap();
        assert_eq!(
            display(&["f:metadata", "f:finalizers", &finalizer]),
            r#".metadata.finalizers[="a/b"]"#
        );
    }
}
