//! Runs a program in the background, with its output in a log file. It is stopped by its process id, and ends with this process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// A running program. It is stopped when this is dropped.
pub struct Process {
    /// The name in messages.
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with its output in `folder/name.log`.
    pub fn spawn(name: &str, folder: &Path, command: &Command) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file =
            File::create(&log).with_context(|| format!("could not make {}", log.display()))?;
        // `setpriv` (util-linux) makes the kernel end the program when this process ends, even if it is killed.
        let mut bound = Command::new("setpriv");
        bound
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        bound.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = bound
            .spawn()
            .with_context(|| format!("could not start {name}: is `setpriv` (util-linux) there?"))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(&mut self, within: Duration) {
        let until = Instant::now() + within;
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        while asked.as_ref().is_ok_and(ExitStatus::success)
            && self.ended().is_none()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the last lines it printed.
    pub fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Returns its resident memory in KiB.
    pub fn resident_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of its own in the machine's temporary folder, removed when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder.
    pub fn new() -> anyhow::Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let path = std::env::temp_dir().join(format!("plimsoll-{}-{now}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("could not make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the path of a file in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
