//! Runs in each child process first: makes the private mounts of its container, asks to be killed when its parent ends, and
//! then becomes the program.

mod mounts;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{
    Pid, Signal, getppid, ioctl_tiocsctty, set_parent_process_death_signal, setsid,
};

/// Comes before a program that has a terminal.
const WITH_TERMINAL: &str = "--terminal";

pub(crate) use mounts::{Mount, Mounts};

/// The environment variable that holds the mounts of a container as JSON. The program does not see it.
pub(crate) const MOUNTS: &str = "PLIMSOLL_MOUNTS";
/// The environment variable that holds the working directory of a container with mounts. The program does not see it.
pub(crate) const DIRECTORY: &str = "PLIMSOLL_DIRECTORY";

/// Returns the arguments with which [`main`] starts a program as a child of this process.
///
/// With a terminal, which is to be its standard input, the program is the first of a session that the terminal controls.
pub(crate) fn args(program: &OsStr, args: &[String], has_terminal: bool) -> Vec<OsString> {
    let parent = OsString::from(std::process::id().to_string());
    let terminal = has_terminal.then(|| OsString::from(WITH_TERMINAL));
    let args = args.iter().map(OsString::from);
    [parent].into_iter().chain(terminal).chain([program.to_owned()]).chain(args).collect()
}

/// Becomes the program that the arguments name, which is killed when the process that started this one ends. Call it
/// before any thread is started. It returns only if the program cannot be started.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let parent =
        args.next().and_then(|arg| arg.to_str()?.parse::<i32>().ok()).and_then(Pid::from_raw);
    let mut program = args.next();
    let has_terminal = program.as_deref() == Some(OsStr::new(WITH_TERMINAL));
    if has_terminal {
        program = args.next();
    }
    let (Some(parent), Some(program)) = (parent, program) else {
        eprintln!("this command is internal: Plimsoll starts programs with it");
        return ExitCode::from(2);
    };
    let mut command = Command::new(&program);
    command.args(args);
    // Before the death signal is set, since a new user namespace may reset it.
    if let Some(mounts) = std::env::var_os(MOUNTS) {
        if let Err(err) = mounts::enter(&mounts, std::env::var_os(DIRECTORY).as_deref()) {
            eprintln!("could not mount the volumes of the container: {err}");
            return ExitCode::from(126);
        }
        command.env_remove(MOUNTS).env_remove(DIRECTORY);
    }
    if let Err(err) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("could not arrange to be killed with the parent process: {err}");
        return ExitCode::from(126);
    }
    // The parent may have ended before that.
    if getppid() != Some(parent) {
        return ExitCode::from(137);
    }
    if has_terminal && let Err(err) = setsid().and_then(|_| ioctl_tiocsctty(std::io::stdin())) {
        eprintln!("could not get control of the terminal: {err}");
        return ExitCode::from(126);
    }
    let err = command.exec();
    eprintln!("could not start {}: {err}", program.display());
    ExitCode::from(if err.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}
