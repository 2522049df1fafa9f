//! The API server from the outside: through clients, over TLS, across restarts, and beside the real API server.

#![allow(clippy::unwrap_used, reason = "a test reports a problem by failing, also in its helpers")]

mod access;
mod bounds;
mod corpus;
mod delegate;
mod differential;
mod full;
mod in_process;
mod keep;
mod partial;
mod restart;
mod service_accounts;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_apiserver::{ApiServer, Settings};
use process::Clock;

/// Opens a server that keeps everything in memory. Its time stands still when tokio's does.
async fn ephemeral() -> ApiServer {
    ApiServer::open(settings()).await.unwrap()
}

/// Keeps everything in memory, and follows tokio's time.
fn settings() -> Settings {
    Settings { clock: Clock::virtual_at(jiff::Timestamp::now()), ..Settings::ephemeral() }
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
