//! Real servers that a test starts and stops.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Returns the value of a variable; `None`, with a line saying what is missing, where it is not set.
pub(crate) fn variable(name: &str) -> Option<String> {
    let found = std::env::var(name).ok();
    if found.is_none() {
        let missing = format!("skipped: run `cargo xtask test`, or set {name}");
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("{missing}");
    }
    found
}

/// A running program, which ends with this.
pub(crate) struct Program {
    pub(crate) port: u16,
    process: Child,
    pub(crate) folder: TempDir,
}

impl Program {
    /// Starts a program with arguments that are made of a free port and a folder, and waits until it listens.
    pub(crate) async fn start(
        program: &str,
        arguments: impl FnOnce(u16, &Path) -> Vec<String>,
    ) -> Self {
        Self::run(|port, folder| {
            let mut command = Command::new(program);
            command.args(arguments(port, folder));
            command
        })
        .await
    }

    /// Runs a command that is made of a free port and a folder, and waits until it listens.
    pub(crate) async fn run(command: impl FnOnce(u16, &Path) -> Command) -> Self {
        let (port, folder) = (free_port().await, TempDir::new().unwrap());
        let mut command = command(port, folder.path());
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < until, "{command:?} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self { port, process, folder }
    }

    /// Sends a signal to it, such as `STOP`.
    pub(crate) async fn signal(&self, signal: &str) {
        let id = self.process.id().expect("it is running").to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status().await.unwrap();
        assert!(sent.success(), "kill -{signal} {id}: {sent}");
    }

    /// Stops it, and waits until it has ended.
    pub(crate) async fn stop(mut self) {
        self.process.kill().await.unwrap();
    }
}

/// Returns a port on which nothing listened a moment ago.
pub(crate) async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}
