//! Every call of npm's published `@google-cloud/agones-sdk`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::sdk_servers::{self, SdkServer};
use crate::root;

const PACKAGE: &str = "@google-cloud/agones-sdk";
const VERSION: &str = "1.61.0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_client_makes_every_call_in_process() {
    every_call(&sdk_servers::in_process().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_client_makes_every_call_to_the_sidecar() {
    every_call(&sdk_servers::sidecar().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_client_makes_every_call_to_the_local_stand_in() {
    every_call(&sdk_servers::local(&[])).await;
}

async fn every_call(server: &SdkServer) {
    let Some(modules) = modules() else { return };
    let mut node = tokio::process::Command::new("node");
    node.arg(root().join("crates/plimsoll/tests/it/sdk/every_call.js"));
    node.env("NODE_PATH", modules).env("AGONES_SDK_GRPC_PORT", server.grpc.to_string());
    let done = node.kill_on_drop(true).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert_eq!(out, "every call was answered\n");
}

/// Finds the package, installed outside the checkout; `None`, with a line saying so, where it cannot be had. In
/// continuous integration that is a failure.
fn modules() -> Option<PathBuf> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(modules) => Some(modules.clone()),
        Err(why) => {
            let missing = format!("skipped: {PACKAGE} cannot be had: {why}");
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("{missing}");
            None
        }
    }
}

fn install() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let dir = cache.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    let dir = dir.join("plimsoll/npm").join(VERSION);
    let modules = dir.join("node_modules");
    let ran = |what: &str, command: &mut Command| match command.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("{what}: {}", String::from_utf8_lossy(&done.stderr))),
        Err(err) => Err(format!("{what}: {err}")),
    };
    ran("node", Command::new("node").arg("--version"))?;
    if !modules.join(PACKAGE).join("package.json").exists() {
        std::fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&dir);
        ran("npm", npm.arg(format!("{PACKAGE}@{VERSION}")))?;
    }
    Ok(modules)
}
