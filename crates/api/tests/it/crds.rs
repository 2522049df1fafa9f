//! Constraints on the generated CRDs.

/// What `format` may say in a CRD; an API server warns of any other.
const FORMATS: [&str; 6] = ["int32", "int64", "double", "byte", "date-time", "duration"];

#[test]
fn no_crd_has_a_format_that_an_api_server_does_not_know() {
    for crd in plimsoll_api::KINDS.iter().filter_map(|kind| kind.crd) {
        let crd = serde_json::to_value(crd()).unwrap();
        let unknown = unknown_formats(&crd["spec"]["versions"], "versions");
        assert!(unknown.is_empty(), "{}: {unknown:?}", crd["metadata"]["name"]);
    }
}

/// Lists the places in a schema whose format is not one of [`FORMATS`].
fn unknown_formats(value: &serde_json::Value, path: &str) -> Vec<String> {
    let inner = |(key, value): (String, &serde_json::Value)| {
        unknown_formats(value, &format!("{path}.{key}"))
    };
    match value {
        serde_json::Value::Object(map) => {
            let format = map.get("format").and_then(serde_json::Value::as_str);
            let own = format.filter(|format| !FORMATS.contains(format));
            let own = own.map(|format| format!("{path}: {format}"));
            let all = map.iter().map(|(key, value)| (key.clone(), value));
            own.into_iter().chain(all.flat_map(inner)).collect()
        }
        serde_json::Value::Array(items) => {
            let all = items.iter().enumerate().map(|(index, item)| (index.to_string(), item));
            all.flat_map(inner).collect()
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => Vec::new(),
    }
}
