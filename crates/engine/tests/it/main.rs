//! The engine from the outside: through clients, over TLS, across restarts, and beside the real API server.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod pods;
mod runtime;
mod schedule;
mod store_panic;
mod top;

use std::ffi::OsString;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_engine::{Engine, Settings};
use process::Clock;

/// Opens an engine that forgets everything. Its time stands still when tokio's does.
async fn ephemeral() -> Engine {
    Engine::open(settings()).await.unwrap()
}

/// Keeps everything in memory, and follows tokio's time.
fn settings() -> Settings {
    Settings { clock: Clock::virtual_at(jiff::Timestamp::now()), ..Settings::ephemeral() }
}

/// Returns the kubectls that are tested, a new and an old one. Where one is missing, a line says so; in continuous integration that is a
/// failure.
fn kubectls() -> Vec<OsString> {
    let found = ["PLIMSOLL_TEST_KUBECTL", "PLIMSOLL_TEST_KUBECTL_OLD"].into_iter().map(|name| {
        let kubectl = std::env::var_os(name);
        if kubectl.is_none() {
            let missing = format!("skipped: no kubectl; run `cargo xtask test`, or set {name}");
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("{missing}");
        }
        kubectl
    });
    found.flatten().collect()
}

/// Connects to the real Kubernetes that tests compare with; `None`, with a line saying what is missing, where there is
/// none. In continuous integration a missing one is a failure.
async fn real_client() -> Option<Client> {
    let Some(path) = std::env::var_os("PLIMSOLL_TEST_KUBECONFIG") else {
        let missing = "skipped: no real Kubernetes to compare with; run `cargo xtask test`, or set PLIMSOLL_TEST_KUBECONFIG";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("{missing}");
        return None;
    };
    let kubeconfig =
        Kubeconfig::read_from(path).expect("PLIMSOLL_TEST_KUBECONFIG names a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("the kubeconfig names a cluster");
    // A refusal is an answer to compare, not something to try again.
    config.default_retry = false;
    Some(Client::try_from(config).expect("the cluster can be reached"))
}
