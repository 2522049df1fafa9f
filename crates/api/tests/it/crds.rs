//! The CRDs in `deploy/` are those of the kinds. `PLIMSOLL_BLESS=1` writes them.

use std::fs;
use std::path::Path;

#[test]
fn crds_in_deploy_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let bless = std::env::var_os("PLIMSOLL_BLESS").is_some();
    let mut wanted = Vec::new();
    for kind in plimsoll_api::KINDS {
        let Some(crd) = kind.crd else { continue };
        let name = format!("{}.{}.yaml", kind.plural, kind.group);
        let text = format!(
            "# Generated from the fields of the kind by `cargo xtask generate`.\n{}",
            serde_saphyr::to_string(&crd()).unwrap()
        );
        let path = folder.join(&name);
        if bless {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, text).unwrap();
        } else {
            let is_fresh = fs::read_to_string(&path).is_ok_and(|there| there == text);
            assert!(is_fresh, "deploy/crds/{name} is not fresh: run `cargo xtask generate`");
        }
        wanted.push(name);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !wanted.contains(&name) {
            assert!(bless, "deploy/crds/{name} belongs to no kind: run `cargo xtask generate`");
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

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
