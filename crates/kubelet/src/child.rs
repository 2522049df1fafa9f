//! Containers as child processes, and as programs in this one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use process::Random;
use rustix::process::Pid;
use tokio::process::{Child, Command};

use crate::instance::{Exit, Handle, Instance};
use crate::leftovers::{self, Mark};
use crate::logs::Log;
use crate::program::{Program, ProgramContext};
use crate::spawner::Spawner;
use crate::{Launcher, launch};

/// How long output is waited for after a process has ended: a child of its own may still hold the pipe.
const OUTPUT_WITHIN: Duration = Duration::from_secs(1);

/// What a child gets of our own environment: where programs and homes are.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH"];

/// A program of this machine, ready to be started.
pub(crate) struct Plan {
    pub(crate) program: OsString,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) dir: Option<String>,
}

impl Plan {
    /// Starts the program as a child that ends when we do, in a process group of its own.
    pub(crate) async fn spawn(
        self,
        launcher: &Launcher,
        mark: &Mark,
        spawner: &Spawner,
    ) -> io::Result<Child> {
        let mut command = Command::new(&launcher.program);
        command
            .args(&launcher.args)
            .args(launch::args(&self.program, &self.args))
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(&self.env)
            .env(leftovers::VARIABLE, mark.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        spawner.run(move || command.spawn()).await
    }
}

/// Looks after a child: its output goes to the log, and its end is told.
pub(crate) fn watch(mut child: Child, log: Arc<Log>) -> io::Result<Instance> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group = id.ok_or_else(|| io::Error::other("the process has ended before it was seen"))?;
    let outputs = [
        child.stdout.take().map(|out| tokio::spawn(Arc::clone(&log).fill(out))),
        child.stderr.take().map(|err| tokio::spawn(Arc::clone(&log).fill(err))),
    ];
    let exit = async move {
        let status = child.wait().await;
        // What it started and left in its group ends with it.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        for output in outputs.into_iter().flatten() {
            let abort = output.abort_handle();
            if tokio::time::timeout(OUTPUT_WITHIN, output).await.is_err() {
                abort.abort();
            }
        }
        log.end();
        match status {
            Ok(status) => {
                let signal = status.signal();
                let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
                Exit { code, signal, message: String::new() }
            }
            Err(err) => {
                Exit { code: 255, signal: None, message: format!("could not be waited for: {err}") }
            }
        }
    };
    let id = format!("process://{}", group.as_raw_nonzero());
    Ok(Instance { id, exit: Box::pin(exit), handle: Handle::Process(group) })
}

/// Starts a program in this process.
pub(crate) fn in_process(
    program: &Arc<dyn Program>,
    context: ProgramContext,
    random: &Random,
) -> Instance {
    let (stop, log) = (context.stop.clone(), Arc::clone(&context.log));
    let id = format!("program://{}", random.uuid());
    let running = tokio::spawn(program.run(context));
    let task = running.abort_handle();
    let exit = async move {
        let ended = running.await;
        log.end();
        match ended {
            Ok(code) => Exit { code, signal: None, message: String::new() },
            Err(err) if err.is_cancelled() => {
                Exit { code: 137, signal: Some(9), message: String::new() }
            }
            Err(err) => {
                Exit { code: 2, signal: None, message: format!("the program failed: {err}") }
            }
        }
    };
    Instance { id, exit: Box::pin(exit), handle: Handle::Program { stop, task } }
}
