//! Finds out whether Linux lets a process have mounts of its own.

use std::process::Stdio;

use process::Random;
use tokio::process::Command;

use crate::launch::{self, Mount, Mounts};
use crate::settings::Launcher;
use crate::spawner::Spawner;

/// How containers that are processes see their volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mounting {
    /// At their paths, in a mount namespace of each process.
    Private,
    /// In directories whose paths are in environment variables.
    Variables {
        /// Why they are not mounted.
        why: String,
    },
}

/// Starts a process with a mount at a path that does not exist.
pub(crate) async fn detect(launcher: &Launcher, spawner: &Spawner, random: &Random) -> Mounting {
    match try_mount(launcher, spawner, random).await {
        Ok(()) => Mounting::Private,
        Err(why) => Mounting::Variables { why },
    }
}

async fn try_mount(launcher: &Launcher, spawner: &Spawner, random: &Random) -> Result<(), String> {
    let name = format!("plimsoll-mount-{}", random.uuid());
    let staging = std::env::temp_dir().join(&name);
    let failed = |err: std::io::Error| err.to_string();
    super::directory::create(&staging, 0o700).map_err(failed)?;
    let target = format!("/{name}/inner").into();
    let mount = Mount { source: staging.clone(), target, read_only: true };
    let mounts = Mounts { staging: staging.clone(), mounts: vec![mount] };
    let mounts = serde_json::to_string(&mounts).map_err(|err| err.to_string())?;
    let mut command = Command::new(&launcher.program);
    command
        .args(&launcher.args)
        .args(launch::args("true".as_ref(), &[], false))
        .env(launch::MOUNTS, mounts)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = spawner.run(move || command.spawn()).await.map_err(failed)?;
    let output = child.wait_with_output().await.map_err(failed)?;
    let _ = std::fs::remove_dir(&staging);
    if output.status.success() {
        return Ok(());
    }
    let output_text = String::from_utf8_lossy(&output.stderr);
    Err(output_text.lines().next().unwrap_or("the process failed").to_owned())
}
