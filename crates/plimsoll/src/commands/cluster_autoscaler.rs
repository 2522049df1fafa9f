//! `plimsoll cluster-autoscaler`: adds and removes nodes in place of Cluster Autoscaler.
//!
//! Settings come from the flags alone. The only state is in the taints of nodes, the Lease and the status ConfigMap, and nothing is
//! requested that the role of Cluster Autoscaler does not allow.

mod connect_api;
mod controller;
mod credentials;
mod probes;
mod settings;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use cluster::{CachedKind, Caches};
use control::{Part, Settings};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams};
use process::Supervisor;
use process::log::Format;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::cluster_autoscaler::{FlagError, Flags, help};
use settings::{Setup, Surroundings};

/// The exit code after a wrong command line, as Go's programs have it.
const USAGE: u8 = 2;

/// Runs until it is terminated, or is no longer the leader.
pub(crate) fn run(program: &str, args: Vec<OsString>, format: Format) -> anyhow::Result<ExitCode> {
    let args = args.into_iter().map(|arg| arg.to_string_lossy().into_owned());
    let flags = match Flags::parse(args) {
        Ok(flags) => flags,
        Err(FlagError::Help) => {
            write!(std::io::stdout(), "{}", help(program))?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(FlagError::Usage(message)) => {
            // The help is long: whoever reads only the end of the log finds the message there, too.
            eprintln!("{message}\n{}\n{message}", help(program));
            return Ok(ExitCode::from(USAGE));
        }
    };
    let setup = settings::setup(&flags, &surroundings(&flags)?).map_err(|cause| anyhow!(cause))?;
    let format = if setup.process.logs_json { Format::Json } else { format };
    process::log::init("info", format);
    for notice in &setup.notices {
        tracing::warn!("{notice}");
    }
    crate::enable_background_purging();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&setup))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Reads the environment, and the file of `--cloud-config` unless it is a kubeconfig.
fn surroundings(flags: &Flags) -> anyhow::Result<Surroundings> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let (path, is_kubeconfig) =
        (flags.text("cloud-config"), flags.text("cloud-provider") == "clusterapi");
    let cloud_config = match path {
        "" => None,
        _ if is_kubeconfig => None,
        path => {
            let text = std::fs::read_to_string(path);
            Some(text.with_context(|| format!("--cloud-config: could not read {path}"))?)
        }
    };
    Ok(Surroundings { environment: variables.collect(), cloud_config })
}

async fn serve(setup: &Setup) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (values, credentials) = controller::values(setup)?;
    let client = credentials.client(connect_api::client(&setup.process).await?);
    let supervisor = Supervisor::new();
    let settings = controller::settings(setup, values, &client, &supervisor);
    let caches = Caches::new(None, false);
    let kinds = BTreeSet::from([CachedKind::NodeScalingInputs]);
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    let (address, limits) = (&setup.process.address, setup.process.health);
    let _serving = probes::serve(address, &caches, &settings, limits, &supervisor).await?;
    let lease = controller::lease(setup);
    let lead = || {
        let (client, caches, settings) = (client.clone(), Arc::clone(&caches), settings.clone());
        control::run(client, caches, settings, &[Part::Nodes], std::future::pending())
    };
    let leading = async {
        match &lease {
            None => lead().await,
            Some(terms) => cluster::run_while_leader(&client, terms, &settings.clock, lead).await,
        }
    };
    let result = tokio::select! {
        () = leading => Err(anyhow!("no longer the leader, or the controller failed; it has to be started again")),
        _ = interrupted.recv() => Ok(()),
        _ = terminated.recv() => Ok(()),
        ended = supervisor.ended() => Err(ended.into()),
    };
    supervisor.stop();
    // The next leader writes it again, so it has to go first.
    if settings.node_metrics.activity().began_at.is_some() && result.is_ok() {
        delete_status_map(&client, &settings).await;
    }
    if let Some(terms) = &lease {
        cluster::release_lease(&client, terms, &settings.clock).await;
    }
    result
}

/// Deletes the status ConfigMap, as Cluster Autoscaler does at its end.
async fn delete_status_map(client: &Client, settings: &Settings) {
    let Some(name) = &settings.nodes.status_map else { return };
    let api: Api<ConfigMap> =
        Api::namespaced(client.clone(), &settings.cluster_autoscaler_namespace);
    if let Err(error) = api.delete(name, &DeleteParams::default()).await {
        tracing::debug!(name, error = cluster::explain(&error), "could not delete the ConfigMap");
    }
}
