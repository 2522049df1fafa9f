//! The logs of containers.
//!
//! The last part of each container's output is kept in memory, for its present run and the one before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use jiff::Timestamp;
use process::Clock;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;

/// How much of each run is kept.
const KEPT: usize = 256 << 10;
/// Where a line that does not end is broken.
const LINE: usize = 16 << 10;

/// The logs of all pods.
#[derive(Default)]
pub(crate) struct Logs(Mutex<BTreeMap<Arc<str>, Pod>>);

/// The logs of a pod, by container.
type Pod = BTreeMap<String, Runs>;

#[derive(Default)]
struct Runs {
    present: Option<Arc<Log>>,
    previous: Option<Arc<Log>>,
}

impl Logs {
    /// Starts the log of a new run of a container.
    pub(crate) fn start(&self, pod: &Arc<str>, container: &str, clock: Clock) -> Arc<Log> {
        let mut pods = self.0.lock().expect("no one panics while holding it");
        let runs =
            pods.entry(Arc::clone(pod)).or_default().entry(container.to_owned()).or_default();
        let log = Arc::new(Log::new(clock));
        runs.previous = runs.present.replace(Arc::clone(&log));
        log
    }

    /// Removes the logs of a pod.
    pub(crate) fn remove(&self, pod: &str) {
        self.0.lock().expect("no one panics while holding it").remove(pod);
    }

    /// Finds the log of a container.
    pub(crate) fn find(&self, pod: &str, container: &str, previous: bool) -> Option<Arc<Log>> {
        let pods = self.0.lock().expect("no one panics while holding it");
        let runs = pods.get(pod)?.get(container)?;
        if previous { runs.previous.clone() } else { runs.present.clone() }
    }
}

/// What one run of a container wrote.
pub(crate) struct Log {
    clock: Clock,
    lines: Mutex<Lines>,
    grown: watch::Sender<()>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<Line>,
    bytes: usize,
    /// How many lines were forgotten.
    forgotten: u64,
    is_over: bool,
}

/// One line, with its end.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) text: Bytes,
}

impl Log {
    fn new(clock: Clock) -> Self {
        Self { clock, lines: Mutex::default(), grown: watch::Sender::new(()) }
    }

    /// Adds a line.
    pub(crate) fn write(&self, text: Bytes) {
        let at = self.clock.now();
        {
            let mut lines = self.lines.lock().expect("no one panics while holding it");
            lines.bytes += text.len();
            lines.kept.push_back(Line { at, text });
            while lines.bytes > KEPT
                && let Some(oldest) = lines.kept.pop_front()
            {
                lines.bytes -= oldest.text.len();
                lines.forgotten += 1;
            }
        }
        self.grown.send_replace(());
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&self) {
        self.lines.lock().expect("no one panics while holding it").is_over = true;
        self.grown.send_replace(());
    }

    /// Gives the lines from a number on, the number after the last, and whether nothing more will come.
    pub(crate) fn read(&self, from: u64) -> (Vec<Line>, u64, bool) {
        let lines = self.lines.lock().expect("no one panics while holding it");
        let skip = usize::try_from(from.saturating_sub(lines.forgotten)).unwrap_or(usize::MAX);
        let next = lines.forgotten + lines.kept.len() as u64;
        (lines.kept.iter().skip(skip).cloned().collect(), next, lines.is_over)
    }

    /// Gives a signal that changes when there is more to read.
    pub(crate) fn grown(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    /// Takes everything that comes from a pipe.
    pub(crate) async fn fill(self: Arc<Self>, mut from: impl AsyncRead + Unpin) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 8 << 10];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            for byte in &chunk[..count] {
                line.push(*byte);
                if *byte == b'\n' || line.len() >= LINE {
                    self.write(std::mem::take(&mut line).into());
                }
            }
        }
        if !line.is_empty() {
            self.write(line.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_kept_in_order_and_the_oldest_go_first() {
        let log = Arc::new(Log::new(Clock::system()));
        Arc::clone(&log).fill(&b"one\ntwo\nthree"[..]).await;
        let (lines, next, is_over) = log.read(1);
        let text: Vec<&[u8]> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(text, [&b"two\n"[..], b"three"]);
        assert!(next == 3 && !is_over);
        (0..1000).for_each(|_| log.write(vec![b'x'; 1 << 10].into()));
        let (lines, next, _) = log.read(0);
        assert!(lines.len() <= 256 && next == 1003, "{} {next}", lines.len());
        let endless = vec![b'y'; 3 * LINE + 1];
        Arc::clone(&log).fill(&endless[..]).await;
        assert_eq!(log.read(next).0.len(), 4, "a line that does not end is broken");
    }
}
