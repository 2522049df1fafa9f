//! What did an earlier run leave behind?
//!
//! A child carries in its environment which process it belongs to: its id and when it started. A child whose process is
//! no more (a child of a child, which no death signal reaches) is ended at the next start.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks what we started.
pub(super) const MARK: &str = "PLIMSOLL_RUN";

/// Gives the mark of this process.
pub(super) fn mark() -> String {
    let id = std::process::id();
    format!("{id}-{}", started_at(Path::new("/proc/self")).unwrap_or_default())
}

/// Gives when a process started, in ticks since the machine did.
fn started_at(process: &Path) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name of the program is in brackets, and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

/// Ends every process whose owner is gone.
pub(super) fn end() {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        let marked = environment.split(|byte| *byte == 0).find_map(|variable| {
            let value = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()
        });
        if marked.is_some_and(|mark| !is_alive(mark)) {
            tracing::info!(
                pid = id.as_raw_nonzero().get(),
                "ending a process that an earlier run left behind"
            );
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// Tells whether the process that a mark names still runs. One that cannot be read is left alone.
pub(super) fn is_alive(mark: &str) -> bool {
    let Some((id, started)) = mark.split_once('-') else { return true };
    let (Ok(id), Ok(started)) = (id.parse::<u32>(), started.parse::<u64>()) else { return true };
    started_at(&Path::new("/proc").join(id.to_string())) == Some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        assert!(is_alive(&mark()));
        let (id, _) = mark().split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(!is_alive(&format!("{id}-1")), "another one had this id");
        assert!(is_alive("nonsense"));
    }
}
