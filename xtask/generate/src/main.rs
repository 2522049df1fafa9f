//! Writes generated files: the CRDs in `deploy/crds`, and `crates/apimachinery/data/*.txt` from the Go modules of Kubernetes.
//!
//! For the latter, the OpenAPI documents have the types of fields and how lists merge; the Go types have what the documents leave out:
//! which fields are pointers, which vanish when empty, and the names that decoding errors use.

mod crds;
mod go;
mod kinds;
mod openapi;
mod write;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Parser;

/// The release whose types the engine serves.
const KUBERNETES: &str = "1.36.3";

/// Write generated files
#[derive(Parser)]
enum Args {
    /// The CRDs in `deploy/crds`
    Crds {
        /// Write nothing, and fail if a file is out of date
        #[arg(long)]
        check: bool,
    },
    /// The types of Kubernetes, from its Go modules
    KubernetesTypes,
}

fn main() -> anyhow::Result<()> {
    let crds = project().join("deploy/crds");
    match Args::parse() {
        Args::Crds { check: true } => crds::check(&crds),
        Args::Crds { check: false } => crds::write(&crds),
        Args::KubernetesTypes => kubernetes_types(),
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn kubernetes_types() -> anyhow::Result<()> {
    let modules = module_cache()?;
    let kubernetes = modules.join(format!("k8s.io/kubernetes@v{KUBERNETES}"));
    ensure!(
        kubernetes.is_dir(),
        "{} is missing: `cargo xtask kube` downloads it",
        kubernetes.display()
    );
    let schemas = openapi::read(&kubernetes.join("api/openapi-spec/v3"))?;
    let types = go::read(&modules)?;
    let data = project().join("crates/apimachinery/data");
    write::types(&data.join("types.txt"), &schemas, &types)?;
    write::descriptions(&data.join("descriptions.txt"), &schemas)
}

fn module_cache() -> anyhow::Result<PathBuf> {
    let out = Command::new("go").args(["env", "GOMODCACHE"]).output();
    if let Ok(out) = out
        && out.status.success()
    {
        return Ok(PathBuf::from(String::from_utf8(out.stdout)?.trim()));
    }
    let home = std::env::var_os("HOME").context("neither `go` nor HOME is there")?;
    Ok(Path::new(&home).join("go/pkg/mod"))
}
