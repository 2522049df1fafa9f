//! Makes Rust of the contracts in `crates/api/proto`, with serde for the JSON that gateways speak.

/// Numbers of 64 bits, which JSON writes as strings.
const INT64: &[&str] = &[
    ".agones.dev.sdk.Duration.seconds",
    ".agones.dev.sdk.GameServer.ObjectMeta.generation",
    ".agones.dev.sdk.GameServer.ObjectMeta.creation_timestamp",
    ".agones.dev.sdk.GameServer.ObjectMeta.deletion_timestamp",
    ".agones.dev.sdk.GameServer.Status.PlayerStatus.count",
    ".agones.dev.sdk.GameServer.Status.PlayerStatus.capacity",
    ".agones.dev.sdk.GameServer.Status.CounterStatus.count",
    ".agones.dev.sdk.GameServer.Status.CounterStatus.capacity",
    ".agones.dev.sdk.GameServer.Status.ListStatus.capacity",
    ".agones.dev.sdk.beta.Counter.count",
    ".agones.dev.sdk.beta.Counter.capacity",
    ".agones.dev.sdk.beta.CounterUpdateRequest.countDiff",
    ".agones.dev.sdk.beta.List.capacity",
    ".agones.dev.sdk.alpha.Count.count",
    ".allocation.CounterSelector",
    ".allocation.ListSelector.minAvailable",
    ".allocation.ListSelector.maxAvailable",
];

/// The same, and they may be absent.
const OPTIONAL_INT64: &[&str] = &[
    ".agones.dev.sdk.beta.CounterUpdateRequest.count",
    ".agones.dev.sdk.beta.CounterUpdateRequest.capacity",
    ".allocation.AllocationResponse.CounterStatus",
    ".allocation.AllocationResponse.ListStatus.capacity",
    ".allocation.CounterAction.amount",
    ".allocation.CounterAction.capacity",
    ".allocation.ListAction.capacity",
];

/// Fields with words from a fixed set, which JSON writes by name and reads by name or number.
const ENUMS: &[(&str, &str)] = &[
    (".allocation.AllocationRequest.scheduling", "scheduling"),
    (".allocation.LabelMatchExpressions.operator", "operator"),
    (".allocation.GameServerSelector.gameServerState", "game_server_state"),
    (".allocation.Priority.type", "priority_type"),
    (".allocation.Priority.order", "priority_order"),
];

/// Messages whose fields are declared in camel case.
const CAMEL_CASE: &[&str] = &[".agones.dev.sdk.beta.CounterUpdateRequest", ".allocation"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = ["sdk", "beta", "alpha", "allocation"].map(|f| format!("../api/proto/{f}.proto"));
    for proto in &protos {
        println!("cargo::rerun-if-changed={proto}");
    }
    let mut config = tonic_prost_build::Config::new();
    config.protoc_executable(protoc_bin_vendored::protoc_bin_path()?);
    let google = protoc_bin_vendored::include_path()?;

    let mut build = tonic_prost_build::configure()
        .btree_map(".")
        .message_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .message_attribute(".", "#[serde(default)]")
        .field_attribute(
            ".agones.dev.sdk.alpha.PlayerID.playerID",
            "#[serde(rename = \"playerID\")]",
        )
        .field_attribute(".agones.dev.sdk.beta.UpdateListRequest.update_mask", "#[serde(skip)]");
    for path in CAMEL_CASE {
        build = build.message_attribute(path, "#[serde(rename_all = \"camelCase\")]");
    }
    for path in INT64 {
        build = build.field_attribute(path, "#[serde(with = \"crate::proto::json::int64\")]");
    }
    for path in OPTIONAL_INT64 {
        let with = "#[serde(with = \"crate::proto::json::optional_int64\")]";
        build = build.field_attribute(path, with);
    }
    for (path, module) in ENUMS {
        let with = format!("#[serde(with = \"crate::proto::json::{module}\")]");
        build = build.field_attribute(path, with);
    }
    let includes = ["../api/proto".into(), google];
    build.compile_with_config(config, &protos.map(Into::<std::path::PathBuf>::into), &includes)?;
    Ok(())
}
