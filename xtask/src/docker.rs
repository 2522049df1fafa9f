//! Runs a Docker Engine for the tests: on a socket in a folder of its own, without networks, with one small image.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::process::{Folder, Process};
use crate::run;

/// Its image: a shell, and the programs that copy files and listen on a port.
pub const IMAGE: &str = "plimsoll-test:1";

/// Debian's packages with the engine and with the shell that needs no library.
const PACKAGES: [&str; 2] = ["docker.io", "busybox-static"];
const SHELL: &str = "/bin/busybox";

/// How long the engine may take to stop its containers, which is 15 s by its default.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// A running engine. It is stopped when this is dropped.
pub struct Docker {
    engine: Process,
    _containerd: Process,
    folder: Folder,
}

impl Docker {
    /// Starts an engine; installs it first if it is missing and this may install packages.
    pub fn start() -> anyhow::Result<Self> {
        install()?;
        let folder = Folder::new()?;
        let in_folder = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new("containerd");
        command.args(["--root", &in_folder("containerd"), "--state", &in_folder("state")]);
        command.args(["--address", &in_folder("containerd.sock")]);
        let mut containerd = Process::spawn("containerd", folder.path(), &command)?;
        wait_for(&folder.join("containerd.sock"), &mut containerd)?;
        let mut command = Command::new("dockerd");
        command.args(["--containerd", &in_folder("containerd.sock")]);
        command.args(["--data-root", &in_folder("data"), "--exec-root", &in_folder("exec")]);
        command.args(["--pidfile", &in_folder("pid")]);
        command.arg(format!("--host=unix://{}", in_folder("docker.sock")));
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        command.arg("--storage-driver=vfs");
        let mut engine = Process::spawn("dockerd", folder.path(), &command)?;
        wait_for(&folder.join("docker.sock"), &mut engine)?;
        let docker = Self { engine, _containerd: containerd, folder };
        docker.import()?;
        Ok(docker)
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("docker.sock")
    }

    /// Builds the image from this machine's own shell.
    fn import(&self) -> anyhow::Result<()> {
        let (tar, image) = (self.folder.join("image.tar"), self.folder.join("image"));
        std::fs::create_dir_all(image.join("bin"))?;
        for name in ["sh", "sleep", "tar", "nc"] {
            std::fs::copy(SHELL, image.join("bin").join(name))?;
        }
        let mut command = Command::new("tar");
        command.arg("--create").arg("--file").arg(&tar).arg("--directory").arg(&image).arg("bin");
        run::command(&mut command)?;
        let (name, tag) = IMAGE.split_once(':').context("the image has a tag")?;
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--output", "/dev/null"]);
        command.args(["--header", "content-type: application/x-tar", "--unix-socket"]);
        command.arg(self.socket()).arg("--data-binary").arg(format!("@{}", tar.display()));
        command.arg(format!("http://docker/images/create?fromSrc=-&repo={name}&tag={tag}"));
        run::command(&mut command)
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        // An engine that is killed leaves its containers running; one that is asked to end stops them first.
        self.engine.terminate(SHUTDOWN);
        // It leaves this mount, with which the folder cannot be removed.
        let _ = Command::new("umount").arg(self.folder.join("exec/netns/default")).status();
    }
}

fn install() -> anyhow::Result<()> {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if is_there("dockerd") && is_there("containerd") && Path::new(SHELL).exists() {
        return Ok(());
    }
    let missing = format!("no Docker Engine: install {}", PACKAGES.join(" and "));
    ensure!(is_there("apt-get"), "{missing}");
    eprintln!("installing {} (a minute, once)", PACKAGES.join(" and "));
    run::command(Command::new("apt-get").args(["update", "-qq"])).context(missing.clone())?;
    let mut command = Command::new("apt-get");
    command.args(["install", "-qq", "--yes", "--no-install-recommends"]).args(PACKAGES);
    // Only installed: no engine is started for the whole machine.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    run::command(&mut command).context(missing)
}

/// Waits until the socket accepts connections.
fn wait_for(socket: &Path, of: &mut Process) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(60);
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        if of.ended().is_some() || Instant::now() > until {
            bail!("{} did not get ready; its last words:\n{}", of.name, of.last_words());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
