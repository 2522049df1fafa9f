//! The webhooks and modules that return the size of a fleet.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An address to call: a URL, or a service of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookConfig {
    /// The address as a URL. Either this or `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The service to call. Either this or `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceReference>,
    /// The certificates (PEM) that the other side's must lead to; those of the system unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::base64")]
    pub ca_bundle: Option<ByteString>,
}

/// A service of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceReference {
    /// The namespace it lives in; `default` unless given.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port to call; 8000 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// A WebAssembly module that computes the size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WasmPolicy {
    /// The function to call.
    #[serde(default = "scale")]
    pub function: String,
    /// Settings that the module can read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// Where the module comes from.
    pub from: WasmSource,
    /// The SHA-256 that the module must have, as 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^([0-9a-fA-F]{64})?$"))]
    pub hash: String,
}

/// Where a WebAssembly module comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WasmSource {
    /// The address to download it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<WebhookConfig>,
}

fn scale() -> String {
    "scale".to_owned()
}
