//! Templates: of the game servers in a fleet or set, and of the pod in a game server.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::GameServerSpec;
use crate::{Problem, decode};

/// The template of the game servers of a set or fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GameServerTemplate {
    /// Labels and annotations of the game servers.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub metadata: ObjectMeta,
    /// The spec of each game server.
    pub spec: GameServerSpec,
}

/// A Kubernetes pod template, kept to the letter: a cluster may know fields of pods that we do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);

impl PodTemplate {
    /// Returns the containers, or the init containers.
    pub fn containers(&self, list: &str) -> impl Iterator<Item = &Value> {
        self.0["spec"][list].as_array().into_iter().flatten()
    }

    /// Returns the names of the containers.
    pub fn container_names(&self) -> impl Iterator<Item = &str> {
        self.containers("containers").filter_map(|c| c["name"].as_str())
    }

    /// Returns an annotation of the pod.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][name].as_str()
    }

    /// Reads the template as Kubernetes' own type.
    pub fn read(&self) -> Result<PodTemplateSpec, Vec<Problem>> {
        decode::lenient(&self.0)
    }
}

impl Default for PodTemplate {
    fn default() -> Self {
        Self(Value::Object(Map::new()))
    }
}

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["spec"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "spec": {
                    "type": "object",
                    "required": ["containers"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"containers": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"name": {"type": "string"}},
                        },
                    }},
                },
            },
        })
    }
}

/// The schema of a part that Kubernetes describes itself.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
