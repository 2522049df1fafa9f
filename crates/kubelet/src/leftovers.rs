//! Processes that an earlier run on the same data directory left behind.
//!
//! Everything that is started carries a mark: the identity of the data directory, and the process that started it, known by
//! the boot of the machine, its id and when it started. What carries the identity of this directory and was started by a
//! process that is no more is a leftover: nobody else can have the directory open. What carries another identity belongs to
//! another Plimsoll, whose process may well run where this one cannot see it.

use std::fmt;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable of a process' environment that has its mark.
pub(crate) const VARIABLE: &str = "PLIMSOLL_RUN";

/// Says who started something.
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
    pub(crate) fn of_this_run(identity: &str) -> Self {
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

    /// Tells whether this is of the same data directory as `this`, and of a process that is no more.
    pub(crate) fn is_of_an_earlier_run(&self, this: &Self) -> bool {
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
    // The name of the program is in brackets, and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// Ends every process that an earlier run left.
pub(crate) fn end(this: &Mark) {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        // Taken before its environment is read: a process that gets the same id afterwards is not meant by it.
        let Ok(handle) = pidfd_open(id, PidfdFlags::empty()) else { continue };
        let Some(left) = mark_of(&process.path()) else { continue };
        // A process does not outlive the boot it belongs to.
        if left.boot == this.boot && left.is_of_an_earlier_run(this) {
            let pid = id.as_raw_nonzero().get();
            tracing::info!(pid, "ending a process that an earlier run left behind");
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

fn mark_of(process: &Path) -> Option<Mark> {
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

    /// A process with a mark, which ends with the test.
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
    fn of_another(this: &Mark, pid: u32, started: u64) -> Mark {
        Mark { pid, started, ..this.clone() }
    }

    #[test]
    fn a_mark_is_read_back_and_nothing_else_is() {
        let this = Mark::of_this_run(&uuid::Uuid::new_v4().to_string());
        assert_eq!(Mark::parse(&this.to_string()), Some(this));
        for text in ["", "nonsense", "4711-1", "a/b/c/d", "a/b/1/2/3", "//1/2"] {
            assert_eq!(Mark::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_an_earlier_run_on_this_directory_left_is_ended() {
        let this = Mark::of_this_run(&uuid::Uuid::new_v4().to_string());
        // A process of this id runs, but it is a younger one: a bare id says nothing.
        let mut left = Marked::start(&of_another(&this, this.pid, 1).to_string());
        end(&this);
        assert_eq!(left.0.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn what_belongs_to_another_plimsoll_runs_on() {
        let this = Mark::of_this_run(&uuid::Uuid::new_v4().to_string());
        let mut owner = Marked::start("");
        let process = Path::new("/proc").join(owner.0.id().to_string());
        let owner_started = started_at(&process).unwrap();
        let others = [
            // Its process is in another pid namespace: here its id means nothing.
            Mark { identity: uuid::Uuid::new_v4().to_string(), ..of_another(&this, this.pid, 1) },
            // From before the last boot, says the mark; so the process is not what it names.
            Mark { boot: uuid::Uuid::new_v4().to_string(), ..of_another(&this, this.pid, 1) },
            of_another(&this, owner.0.id(), owner_started),
            this.clone(),
        ];
        let marks = others.iter().map(Mark::to_string).chain(["4711-1".to_owned(), String::new()]);
        let mut running: Vec<_> = marks.map(|mark| (Marked::start(&mark), mark)).collect();
        end(&this);
        // A signal may take a moment; who got one before this one has ended by then.
        let mut left = Marked::start(&of_another(&this, this.pid, 1).to_string());
        end(&this);
        assert_eq!(left.0.wait().unwrap().signal(), Some(9));
        for (process, mark) in &mut running {
            assert!(process.runs(), "{mark:?}");
        }
        assert!(owner.runs());
    }
}
