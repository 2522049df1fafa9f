//! The structural schema of a kind: checks objects and fills in defaults.
//!
//! The fields of a kind say once, in their attributes, what may stand in them; that becomes the schema in the CRD, and
//! here the same schema judges objects where there is no API server: in `evaluate`, and in our own admission.

mod check;
pub(crate) mod words;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use schemars::{SchemaGenerator, json_schema};
use serde_json::Value;

/// The schema of a kind, ready to judge objects.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    kind: Kind,
    nullable: bool,
    default: Option<Value>,
    choices: Vec<Value>,
    /// The least and greatest number, or length of a text, list or map.
    least: Option<f64>,
    most: Option<f64>,
    pattern: Option<Regex>,
    is_set: bool,
    required: Vec<String>,
    properties: BTreeMap<String, Schema>,
    /// The items of a list, or the values of a map.
    inner: Option<Box<Schema>>,
}

/// The JSON type of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Anything,
    Object,
    Array,
    Text,
    Int32,
    Int64,
    Number,
    Boolean,
    IntOrText,
}

impl Schema {
    /// Reads the schema of the first version in a CRD.
    pub(crate) fn from_crd(crd: &CustomResourceDefinition) -> Self {
        let version = crd.spec.versions.first();
        let props = version.and_then(|v| v.schema.as_ref()?.open_api_v3_schema.as_ref());
        props.map(Self::compile).unwrap_or_default()
    }

    fn compile(props: &JSONSchemaProps) -> Self {
        let kind = kind(props);
        let length = |short: Option<i64>, many: Option<i64>, keys: Option<i64>| {
            short.or(many).or(keys).map(|n| n as f64)
        };
        let items = match &props.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items.as_ref()),
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
        };
        let values = match &props.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Some(values.as_ref()),
            Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
        };
        let properties = props.properties.iter().flatten();
        Self {
            kind,
            nullable: props.nullable.unwrap_or(false),
            default: props.default.as_ref().map(|d| d.0.clone()),
            choices: props.enum_.iter().flatten().map(|v| v.0.clone()).collect(),
            least: props.minimum.or(length(
                props.min_length,
                props.min_items,
                props.min_properties,
            )),
            most: props.maximum.or(length(props.max_length, props.max_items, props.max_properties)),
            pattern: props.pattern.as_deref().and_then(|p| Regex::new(p).ok()),
            is_set: props.x_kubernetes_list_type.as_deref() == Some("set"),
            required: props.required.clone().unwrap_or_default(),
            properties: properties.map(|(name, p)| (name.clone(), Self::compile(p))).collect(),
            inner: items.or(values).map(|p| Box::new(Self::compile(p))),
        }
    }

    /// Puts the schema's defaults where a value is missing. A null that the schema does not allow is a missing value.
    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|name, v| {
                    !v.is_null() || self.properties.get(name).is_none_or(|p| p.nullable)
                });
                for (name, property) in &self.properties {
                    if let Some(default) = &property.default
                        && !map.contains_key(name)
                    {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, v) in map.iter_mut() {
                    if let Some(schema) = self.properties.get(name).or(self.inner.as_deref()) {
                        schema.fill(v);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.inner {
                    items.iter_mut().for_each(|item| schema.fill(item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn kind(props: &JSONSchemaProps) -> Kind {
    if props.x_kubernetes_int_or_string == Some(true) {
        return Kind::IntOrText;
    }
    match (props.type_.as_deref(), props.format.as_deref()) {
        (Some("object"), _) => Kind::Object,
        (Some("array"), _) => Kind::Array,
        (Some("string"), _) => Kind::Text,
        (Some("integer"), Some("int32")) => Kind::Int32,
        (Some("integer"), _) => Kind::Int64,
        (Some("number"), _) => Kind::Number,
        (Some("boolean"), _) => Kind::Boolean,
        _ => Kind::Anything,
    }
}

/// The schema of bytes, which JSON writes in base64.
pub(crate) fn base64(_: &mut SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": "string", "format": "byte", "nullable": true})
}
