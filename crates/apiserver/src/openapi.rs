//! The OpenAPI documents.
//!
//! Version 3 has an index and a document per group and version; version 2 is one document with everything. Both are generated
//! on request, from the shapes of built-in kinds and the schemas of custom ones.

mod definitions;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use apimachinery::resource::{Resource, ServedResources};

/// The OpenAPI version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpecVersion {
    V2,
    V3,
}

impl SpecVersion {
    /// Returns the prefix of `$ref` values.
    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// A serialized document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) body: Bytes,
    pub(crate) etag: String,
}

impl Document {
    fn new(value: &Value) -> Self {
        let body = Bytes::from(serde_json::to_vec(value).unwrap_or_default());
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        // It only has to change with the document; the length makes a collision less likely.
        let etag = format!("{:016X}{:08X}", hasher.finish(), body.len());
        Self { body, etag }
    }
}

type DocumentCache = BTreeMap<String, Document>;

/// Returns the document at a path below `/openapi`. Documents are cached until the served resources change.
pub(crate) fn document(served: &Arc<ServedResources>, path: &str) -> Option<Document> {
    static CACHE: Mutex<Option<(Arc<ServedResources>, DocumentCache)>> = Mutex::new(None);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, served)) {
        *cache = Some((Arc::clone(served), DocumentCache::new()));
    }
    let (_, documents) = cache.as_mut()?;
    if let Some(found) = documents.get(path) {
        return Some(found.clone());
    }
    let document = match path {
        "/openapi/v2" => Document::new(&document_v2(served)),
        "/openapi/v3" => Document::new(&index(served, documents)),
        _ => Document::new(&document_v3(served, path.strip_prefix("/openapi/v3/")?)?),
    };
    documents.insert(path.to_owned(), document.clone());
    Some(document)
}

fn index(served: &ServedResources, documents: &mut DocumentCache) -> Value {
    let mut paths = Map::new();
    for ((group, version), _) in served.iter() {
        let at = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        let path = format!("/openapi/v3/{at}");
        let Some(value) = document_v3(served, &at) else { continue };
        let document = documents.entry(path.clone()).or_insert_with(|| Document::new(&value));
        let url = format!("{path}?hash={}", document.etag);
        paths.insert(at, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn document_v3(served: &ServedResources, at: &str) -> Option<Value> {
    let parts: Vec<&str> = at.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    let (_, resources) = served.iter().find(|((g, v), _)| g == group && v == version)?;
    let schemas = schemas(&resources, SpecVersion::V3);
    let mut all = Map::new();
    resources.iter().for_each(|r| paths::add(r, SpecVersion::V3, &mut all));
    Some(
        json!({"openapi": "3.0.0", "info": info(), "paths": all, "components": {"schemas": schemas,
        "securitySchemes": {"BearerToken": {"type": "apiKey", "description": "Bearer Token authentication",
            "name": "authorization", "in": "header"}}}}),
    )
}

fn document_v2(served: &ServedResources) -> Value {
    let resources: Vec<&Arc<Resource>> =
        served.iter().flat_map(|(_, resources)| resources).collect();
    let definitions = schemas(&resources, SpecVersion::V2);
    let mut all = Map::new();
    resources.iter().for_each(|r| paths::add(r, SpecVersion::V2, &mut all));
    json!({"swagger": "2.0", "info": info(), "paths": all, "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "description": "Bearer Token authentication",
            "name": "authorization", "in": "header"}}, "security": [{"BearerToken": []}]})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// Returns the schemas of resources, and all schemas that they reference.
fn schemas(resources: &[&Arc<Resource>], spec: SpecVersion) -> Map<String, Value> {
    let mut schemas = Map::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.";
    for name in ["DeleteOptions", "ObjectMeta", "ListMeta", "Patch", "Status", "WatchEvent"] {
        open.insert(format!("{meta}{name}"));
    }
    for resource in resources {
        match &resource.custom {
            Some(custom) => {
                let (name, schema) = definitions::custom(resource, custom, spec);
                definitions::references(&schema, &mut open);
                schemas.insert(format!("{name}List"), definitions::list(resource, &name, spec));
                schemas.insert(name, schema);
            }
            None => open.extend(definitions::names(resource)),
        }
    }
    while let Some(name) = open.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(schema) = definitions::builtin(&name, spec) {
            definitions::references(&schema, &mut open);
            schemas.insert(name, schema);
        }
    }
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::resource::Registry;

    #[test]
    fn all_references_in_the_documents_resolve() {
        let served = Registry::built_in().served();
        for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
            let document = document(&served, path).unwrap();
            let value: Value = serde_json::from_slice(&document.body).unwrap();
            let schemas = value.get("definitions").unwrap_or(&value["components"]["schemas"]);
            let mut named = BTreeSet::new();
            definitions::references(&value, &mut named);
            assert!(named.len() > 20, "{path}");
            for name in named {
                assert!(schemas.get(&name).is_some(), "{path} lacks {name}");
            }
        }
    }

    #[test]
    fn the_index_lists_each_group_and_version_with_a_hash() {
        let served = Registry::built_in().served();
        let index = document(&served, "/openapi/v3").unwrap();
        let index: Value = serde_json::from_slice(&index.body).unwrap();
        let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with("/openapi/v3/apis/apps/v1?hash="), "{url}");
    }

    #[test]
    fn fields_have_descriptions_types_and_merge_keys() {
        let pod_spec = definitions::builtin("io.k8s.api.core.v1.PodSpec", SpecVersion::V3).unwrap();
        let containers = &pod_spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert!(containers["description"].as_str().unwrap().starts_with("List of containers"));
        let reference = &containers["items"]["$ref"];
        assert_eq!(reference, "#/components/schemas/io.k8s.api.core.v1.Container");
        assert_eq!(pod_spec["required"], json!(["containers"]));
    }
}
