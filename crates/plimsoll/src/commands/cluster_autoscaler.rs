//! `plimsoll cluster-autoscaler`: adds and removes nodes in place of Cluster Autoscaler.
//!
//! Settings come from the flags alone. The only state is in the taints of nodes, the Lease and the status ConfigMap, and nothing is
//! requested that the role of Cluster Autoscaler does not allow.

mod connect;
mod settings;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use process::log::Format;

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
    runtime.block_on(serve(setup))?;
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

async fn serve(setup: Setup) -> anyhow::Result<()> {
    let client = connect::client(&setup.process).await?;
    drop(client);
    Ok(())
}
