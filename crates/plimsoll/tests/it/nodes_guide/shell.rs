//! A shell in a folder of its own, with the programs that the page names.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::{from_env, root};

/// The folder. The examples are in it.
pub(super) struct Shell(tempfile::TempDir);

/// A program that keeps running. It is killed when this is dropped, and what it printed is shown if the test fails.
pub(super) struct Running {
    child: Child,
    printed: PathBuf,
}

impl Shell {
    /// Opens a shell with the real kubectl; `None` where there is none.
    pub(super) fn new() -> Option<Self> {
        let kubectl = from_env("PLIMSOLL_TEST_KUBECTL")?;
        let shell = Self(tempfile::tempdir().unwrap());
        fs::create_dir(shell.path().join("bin")).unwrap();
        symlink(kubectl, shell.path().join("bin/kubectl")).unwrap();
        symlink(env!("CARGO_BIN_EXE_plimsoll"), shell.path().join("bin/plimsoll")).unwrap();
        symlink(root().canonicalize().unwrap().join("examples"), shell.path().join("examples"))
            .unwrap();
        Some(shell)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    /// Has a name mean a line of its own, in which `$@` are the arguments.
    pub(super) fn define(&self, program: &str, line: &str) {
        let file = self.path().join("bin").join(program);
        let _ = fs::remove_file(&file);
        fs::write(&file, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the command that types lines into the shell. The first one that fails ends it.
    pub(super) fn command(&self, lines: &str) -> Command {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = [self.path().join("bin")].into_iter().chain(std::env::split_paths(&others));
        let mut command = Command::new("sh");
        command
            .args(["-euc", lines])
            .current_dir(self.path())
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Starts a line that does not end. `connect` says how it reaches a cluster.
    pub(super) fn start(&self, line: &str, connect: impl FnOnce(Command) -> Command) -> Running {
        let number = fs::read_dir(self.path()).unwrap().count();
        let printed = self.path().join(format!("printed-{number}"));
        let file = File::create(&printed).unwrap();
        let mut command = connect(self.command(&format!("exec {line}")));
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Running { child, printed }
    }
}

impl Running {
    pub(super) fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("{}", self.printed());
        }
    }
}

/// Runs a command, which has to succeed, and returns what it printed.
pub(super) fn ok(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?}: {}\n{}", text(&stdout), text(&stderr));
    text(&stdout)
}
