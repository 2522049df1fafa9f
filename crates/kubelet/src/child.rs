//! Containers as child processes, and as programs in this one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use process::Random;
use rustix::process::Pid;
use tokio::process::{Child, Command};
use tokio::spawn;

use crate::instance::{Handle, Instance};
use crate::launch;
use crate::leftovers::{self, Mark};
use crate::logs::Log;
use crate::program::{Program, ProgramContext};
use crate::settings::Launcher;
use crate::spawner::Spawner;
use crate::status::Exit;
use crate::streams::{Output, Stdin};
use crate::terminal::Terminal;

/// How long to wait for output after a process has ended: one of its children may still hold the pipe.
pub(crate) const OUTPUT_WITHIN: Duration = Duration::from_secs(1);

/// The variables of our own environment that a child inherits.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH"];

/// How a program of this machine is started.
pub(crate) struct ProcessSpec {
    pub(crate) program: OsString,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) dir: Option<String>,
    pub(crate) io: ProcessIo,
}

/// What a program reads from and writes to.
pub(crate) enum ProcessIo {
    /// It has no input, and pipes for its output.
    Output,
    /// It has pipes for its input and its output.
    InputAndOutput,
    /// It has a terminal, which controls its session.
    Terminal(OwnedFd),
}

impl ProcessIo {
    /// Returns what a program has, and our side of its terminal.
    pub(crate) fn new(has_stdin: bool, has_terminal: bool) -> io::Result<(Self, Option<Terminal>)> {
        if has_terminal {
            let (ours, of_process) = Terminal::open()?;
            return Ok((Self::Terminal(of_process), Some(ours)));
        }
        Ok((if has_stdin { Self::InputAndOutput } else { Self::Output }, None))
    }
}

impl ProcessSpec {
    /// Starts the program as a child that is killed when this process ends, in a process group of its own.
    pub(crate) async fn spawn(
        self,
        launcher: &Launcher,
        mark: &Mark,
        spawner: &Spawner,
    ) -> io::Result<Child> {
        let mut command = Command::new(&launcher.program);
        command
            .args(&launcher.args)
            .args(launch::args(
                &self.program,
                &self.args,
                matches!(self.io, ProcessIo::Terminal(_)),
            ))
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(matches!(self.io, ProcessIo::Terminal(_)).then_some(("TERM", "xterm")))
            .envs(&self.env)
            .env(leftovers::VARIABLE, mark.to_string())
            .kill_on_drop(true);
        match self.io {
            ProcessIo::Output => command.stdin(Stdio::null()),
            ProcessIo::InputAndOutput => command.stdin(Stdio::piped()),
            ProcessIo::Terminal(ref terminal) => command.stdin(terminal.try_clone()?),
        };
        match self.io {
            ProcessIo::Output | ProcessIo::InputAndOutput => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0)
            }
            // It starts a session of its own, which the leader of a process group cannot.
            ProcessIo::Terminal(terminal) => command.stdout(terminal.try_clone()?).stderr(terminal),
        };
        match &self.dir {
            // It may be inside a volume, which only the launcher mounts.
            Some(dir) if self.env.contains_key(launch::MOUNTS) => {
                command.env(launch::DIRECTORY, dir);
            }
            Some(dir) => {
                command.current_dir(dir);
            }
            None => {}
        }
        spawner.run(move || command.spawn()).await
    }
}

/// Copies the output of a child to its log, and waits for its exit.
pub(crate) fn watch(
    mut child: Child,
    terminal: Option<Terminal>,
    log: Arc<Log>,
) -> io::Result<Instance> {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group =
        id.ok_or_else(|| io::Error::other("the process ended before it could be watched"))?;
    let outputs = [
        terminal.clone().map(|terminal| spawn(Arc::clone(&log).copy_terminal(terminal))),
        child.stdout.take().map(|out| spawn(Arc::clone(&log).copy_from(out, Output::Stdout))),
        child.stderr.take().map(|err| spawn(Arc::clone(&log).copy_from(err, Output::Stderr))),
    ];
    let stdin = terminal.map(Stdin::Terminal).or(child.stdin.take().map(Stdin::Pipe));
    let exit = async move {
        let status = child.wait().await;
        // Processes that it leaves behind in its group are killed, too.
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
            Err(err) => Exit::failure(255, format!("could not be waited for: {err}")),
        }
    };
    let id = format!("process://{}", group.as_raw_nonzero());
    Ok(Instance { id, exit: Box::pin(exit), handle: Handle::Process(group), stdin })
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
            Ok(code) => Exit::with_code(code),
            Err(err) if err.is_cancelled() => {
                Exit { code: 137, signal: Some(9), message: String::new() }
            }
            Err(err) => Exit::failure(2, format!("the program failed: {err}")),
        }
    };
    Instance { id, exit: Box::pin(exit), handle: Handle::Program { stop, task }, stdin: None }
}
