//! Makes Rust of the contracts of node group providers and expanders in `crates/api/proto`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos =
        ["core_v1", "external_grpc", "grpc_expander"].map(|f| format!("../api/proto/{f}.proto"));
    for proto in &protos {
        println!("cargo::rerun-if-changed={proto}");
    }
    let mut config = tonic_prost_build::Config::new();
    config.protoc_executable(protoc_bin_vendored::protoc_bin_path()?);
    let includes = ["../api/proto".into(), protoc_bin_vendored::include_path()?];
    let protos = protos.map(Into::<std::path::PathBuf>::into);
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_with_config(config, &protos, &includes)?;
    Ok(())
}
