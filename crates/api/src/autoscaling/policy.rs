//! The policies by which a fleet is sized.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{SchedulePolicy, WasmPolicy, WebhookConfig};

/// How to size the fleet: only the block that `type` names is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Which policy it is.
    #[serde(rename = "type")]
    pub type_: PolicyType,
    /// With `Buffer`: keep so many game servers that are not Allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPolicy>,
    /// With `Webhook`: the size is requested from an HTTP service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// With `Counter`: keep so much room in a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<CapacityPolicy>,
    /// With `List`: keep so much room in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<CapacityPolicy>,
    /// With `Schedule`: another policy, at certain times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<SchedulePolicy>,
    /// With `Chain`: the first of these that returns a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Vec<ChainEntry>>,
    /// With `Wasm`: the size is computed by a WebAssembly module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmPolicy>,
}

/// Which policy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyType {
    /// Keep a number of game servers that are not Allocated.
    Buffer,
    /// The size from an HTTP service.
    Webhook,
    /// Keep capacity available in a counter.
    Counter,
    /// Keep capacity available in a list.
    List,
    /// Another policy, at certain times.
    Schedule,
    /// The first of several policies that returns a size.
    Chain,
    /// The size from a WebAssembly module.
    Wasm,
}

/// Keep a number of game servers that are not Allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BufferPolicy {
    /// The most game servers there may be.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    /// The fewest game servers there may be; 0 is no bound.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_replicas: i32,
    /// How many game servers to keep, as a number or as a share of all.
    #[serde(default = "nothing")]
    pub buffer_size: IntOrString,
}

/// Keep so much room in a counter or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityPolicy {
    /// The name of the counter or list.
    pub key: String,
    /// The most capacity that the game servers of the fleet may have together.
    #[schemars(range(min = 1))]
    pub max_capacity: i64,
    /// The least capacity that they may have together; 0 is no bound.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_capacity: i64,
    /// How much free capacity to keep, as a number or as a share of what Allocated game servers use.
    pub buffer_size: IntOrString,
}

/// One policy of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainEntry {
    /// The name of the policy in the status; must be unique.
    #[serde(default)]
    pub id: String,
    /// Which policy it is.
    #[serde(rename = "type")]
    #[schemars(schema_with = "chained_type")]
    pub type_: PolicyType,
    /// With `Buffer`: keep so many game servers that are not Allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferPolicy>,
    /// With `Webhook`: the size is requested from an HTTP service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// With `Counter`: keep so much room in a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<CapacityPolicy>,
    /// With `List`: keep so much room in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<CapacityPolicy>,
    /// With `Schedule`: another policy, at certain times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<SchedulePolicy>,
    /// With `Wasm`: the size is computed by a WebAssembly module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmPolicy>,
}

impl ChainEntry {
    /// Returns whether the entry has the block of any policy, be it the one that its type names or another.
    pub(super) fn has_block(&self) -> bool {
        self.buffer.is_some()
            || self.webhook.is_some()
            || self.counter.is_some()
            || self.list.is_some()
            || self.schedule.is_some()
            || self.wasm.is_some()
    }

    /// Returns the entry as a policy of its own.
    pub fn policy(&self) -> Policy {
        Policy {
            type_: self.type_,
            buffer: self.buffer.clone(),
            webhook: self.webhook.clone(),
            counter: self.counter.clone(),
            list: self.list.clone(),
            schedule: self.schedule.clone(),
            chain: None,
            wasm: self.wasm.clone(),
        }
    }
}

fn nothing() -> IntOrString {
    IntOrString::Int(0)
}

fn chained_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Buffer", "Webhook", "Counter", "List", "Schedule", "Wasm"],
    })
}

/// The schema of the policy in a schedule: any but another schedule, or a chain.
pub(super) fn scheduled(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string",
                "enum": ["Buffer", "Webhook", "Counter", "List", "Wasm"],
            },
            "buffer": generator.subschema_for::<Option<BufferPolicy>>(),
            "webhook": generator.subschema_for::<Option<WebhookConfig>>(),
            "counter": generator.subschema_for::<Option<CapacityPolicy>>(),
            "list": generator.subschema_for::<Option<CapacityPolicy>>(),
            "wasm": generator.subschema_for::<Option<WasmPolicy>>(),
        },
    })
}
