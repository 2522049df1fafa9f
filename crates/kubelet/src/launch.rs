//! What starts a child process: it sees to it that the child ends with its parent, and becomes the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Gives what to tell [`main`] so that it starts a program as a child of this process.
pub(crate) fn args(program: &OsStr, args: &[String]) -> Vec<OsString> {
    let parent = OsString::from(std::process::id().to_string());
    let args = args.iter().map(OsString::from);
    [parent, program.to_owned()].into_iter().chain(args).collect()
}

/// Becomes the program that the arguments name, to be killed when the process that started this one ends. Call it
/// before any thread is started. It returns only when there is no such program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let parent =
        args.next().and_then(|arg| arg.to_str()?.parse::<i32>().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        eprintln!("this is how Plimsoll starts programs; it is not for people");
        return ExitCode::from(2);
    };
    if let Err(err) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("could not ask to end with the parent process: {err}");
        return ExitCode::from(126);
    }
    // The parent may have ended before it could be asked for.
    if getppid() != Some(parent) {
        return ExitCode::from(137);
    }
    let err = Command::new(&program).args(args).exec();
    eprintln!("could not start {}: {err}", program.display());
    ExitCode::from(if err.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}
