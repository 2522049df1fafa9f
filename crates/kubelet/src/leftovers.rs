//! Processes that an earlier run on the same data directory left behind.
//!
//! Every process that is started carries a mark: the identity of the data directory, and the process that started it, known
//! by the boot of the machine, its id and its start time. A process with the identity of this directory whose parent has ended
//! is a leftover: no other process can have the directory open. A process with another identity belongs to another Plimsoll,
//! which may run in a pid namespace that is not visible from here.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The environment variable that holds the mark of a process.
pub(crate) const VARIABLE: &str = "PLIMSOLL_RUN";

/// Identifies the run that started a process or a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The identity of the data directory.
    identity: String,
    /// The boot of the machine.
    boot: String,
    pid: u32,
    /// When the process started, in ticks since the boot.
    started: u64,
}

impl Mark {
    /// Returns the mark of this process, on a data directory.
    pub(crate) fn for_this_run(identity: &str) -> Self {
        Self {
            identity: identity.to_owned(),
            boot: boot(),
            pid: std::process::id(),
            started: started_at(Path::new("/proc/self")).unwrap_or_default(),
        }
    }

    /// Reads a mark; `None` if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let mut next = || parts.next().filter(|part| !part.is_empty());
        let (identity, boot) = (next()?.to_owned(), next()?.to_owned());
        let mark =
            Self { identity, boot, pid: next()?.parse().ok()?, started: next()?.parse().ok()? };
        parts.next().is_none().then_some(mark)
    }

    /// Whether this run used the same data directory as `this`, and has ended.
    pub(crate) fn is_from_earlier_run(&self, this: &Self) -> bool {
        let process = Path::new("/proc").join(self.pid.to_string());
        let is_alive = self.boot == this.boot && started_at(&process) == Some(self.started);
        self.identity == this.identity && !is_alive
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, boot, pid, started } = self;
        write!(f, "{identity}/{boot}/{pid}/{started}")
    }
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_else(|_| "unknown".to_owned())
}

/// Returns when a process started, in ticks since the boot.
fn started_at(process: &Path) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name of the program is in parentheses, and may contain any character.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// Kills every process that an earlier run left behind.
pub(crate) fn kill_all(this: &Mark) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        // Opened before the environment is read, so that it cannot refer to a later process with the same id.
        let Ok(handle) = pidfd_open(id, PidfdFlags::empty()) else { continue };
        let Some(left) = read_mark(&process.path()) else { continue };
        // A mark of another boot cannot be true: processes do not survive a reboot.
        if left.boot == this.boot && left.is_from_earlier_run(this) {
            let pid = id.as_raw_nonzero().get();
            tracing::info!(pid, "killing a process that an earlier run left behind");
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

fn read_mark(process: &Path) -> Option<Mark> {
    let environment = fs::read(process.join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Mark::parse(std::str::from_utf8(value).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    /// A process with a mark, which is killed at the end of the test.
    struct Marked(Child);

    impl Marked {
        fn start(mark: &str) -> Self {
            let mut command = Command::new("sleep");
            let child = command.arg("100").env(VARIABLE, mark).spawn().unwrap();
            // `spawn` returns while the kernel is still setting up the new program, whose environment is empty until then.
            let environment = Path::new("/proc").join(child.id().to_string()).join("environ");
            while fs::read(&environment).unwrap().is_empty() {
                std::thread::yield_now();
            }
            Self(child)
        }

        fn runs(&mut self) -> bool {
            self.0.try_wait().unwrap().is_none()
        }
    }

    impl Drop for Marked {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Another process' mark, on the same data directory.
    fn with_process(this: &Mark, pid: u32, started: u64) -> Mark {
        Mark { pid, started, ..this.clone() }
    }

    #[test]
    fn a_mark_is_read_back_and_nothing_else_is() {
        let this = Mark::for_this_run(&uuid::Uuid::new_v4().to_string());
        assert_eq!(Mark::parse(&this.to_string()), Some(this));
        for text in ["", "nonsense", "4711-1", "a/b/c/d", "a/b/1/2/3", "//1/2"] {
            assert_eq!(Mark::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_an_earlier_run_on_this_directory_left_is_killed() {
        let this = Mark::for_this_run(&uuid::Uuid::new_v4().to_string());
        // A process with this id runs, but it started later: the id alone proves nothing.
        let mut left = Marked::start(&with_process(&this, this.pid, 1).to_string());
        kill_all(&this);
        assert_eq!(left.0.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn what_belongs_to_another_plimsoll_runs_on() {
        let this = Mark::for_this_run(&uuid::Uuid::new_v4().to_string());
        let mut owner = Marked::start("");
        let process = Path::new("/proc").join(owner.0.id().to_string());
        let owner_started = started_at(&process).unwrap();
        let others = [
            // Its process is in another pid namespace, where the id belongs to another process.
            Mark { identity: uuid::Uuid::new_v4().to_string(), ..with_process(&this, this.pid, 1) },
            // The mark is from before the last boot, so it cannot be that of a running process.
            Mark { boot: uuid::Uuid::new_v4().to_string(), ..with_process(&this, this.pid, 1) },
            with_process(&this, owner.0.id(), owner_started),
            this.clone(),
        ];
        let marks = others.iter().map(Mark::to_string).chain(["4711-1".to_owned(), String::new()]);
        let mut running: Vec<_> = marks.map(|mark| (Marked::start(&mark), mark)).collect();
        kill_all(&this);
        // A signal may take a moment: processes that got one before this one have ended by then.
        let mut left = Marked::start(&with_process(&this, this.pid, 1).to_string());
        kill_all(&this);
        assert_eq!(left.0.wait().unwrap().signal(), Some(9));
        for (process, mark) in &mut running {
            assert!(process.runs(), "{mark:?}");
        }
        assert!(owner.runs());
    }
}
