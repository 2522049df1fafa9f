//! The logs of containers.
//!
//! The end of each container's output is kept in memory, for its current run and the one before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use jiff::Timestamp;
use process::Clock;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{broadcast, watch};

use crate::streams::Output;
use crate::terminal::Terminal;

/// How many bytes of each run are kept.
const KEPT_BYTES: usize = 256 << 10;
/// The longest line, in bytes; longer ones are split.
const LONGEST_LINE: usize = 16 << 10;
/// How many chunks of output an attached client may be behind.
const ATTACHED_BEHIND: usize = 64;

/// The logs of all pods.
#[derive(Default)]
pub(crate) struct Logs(Mutex<BTreeMap<Arc<str>, PodLogs>>);

/// The logs of a pod, by container.
type PodLogs = BTreeMap<String, Runs>;

#[derive(Default)]
struct Runs {
    current: Option<Arc<Log>>,
    previous: Option<Arc<Log>>,
}

impl Logs {
    /// Starts the log of a new run of a container.
    pub(crate) fn start(&self, pod: &Arc<str>, container: &str, clock: Clock) -> Arc<Log> {
        let mut pods = self.0.lock().expect("no code panics while holding it");
        let runs =
            pods.entry(Arc::clone(pod)).or_default().entry(container.to_owned()).or_default();
        let log = Arc::new(Log::new(clock));
        runs.previous = runs.current.replace(Arc::clone(&log));
        log
    }

    /// Removes the logs of a pod.
    pub(crate) fn remove(&self, pod: &str) {
        self.0.lock().expect("no code panics while holding it").remove(pod);
    }

    /// Finds the log of a container.
    pub(crate) fn find(&self, pod: &str, container: &str, previous: bool) -> Option<Arc<Log>> {
        let pods = self.0.lock().expect("no code panics while holding it");
        let runs = pods.get(pod)?.get(container)?;
        if previous { runs.previous.clone() } else { runs.current.clone() }
    }
}

/// The output of one run of a container.
pub(crate) struct Log {
    clock: Clock,
    lines: Mutex<Lines>,
    grown: watch::Sender<()>,
    /// Sends output to attached clients as it comes; `None`: no client was ever attached, or the run has ended.
    live: Mutex<Option<broadcast::Sender<Output>>>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<Line>,
    bytes: usize,
    /// How many lines were dropped.
    dropped: u64,
    is_complete: bool,
}

/// One line, with its newline.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Timestamp,
    pub(crate) text: Bytes,
}

impl Log {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            lines: Mutex::default(),
            grown: watch::Sender::new(()),
            live: Mutex::default(),
        }
    }

    /// Adds a line of output.
    pub(crate) fn write(&self, output: Output) {
        let text = match &output {
            Output::Stdout(text) | Output::Stderr(text) => text.clone(),
        };
        self.send_live(|| output);
        self.push(text);
    }

    /// Sends output to the attached clients. One that is too far behind misses some.
    fn send_live(&self, output: impl FnOnce() -> Output) {
        if let Some(live) = &*self.live.lock().expect("no code panics while holding it") {
            let _ = live.send(output());
        }
    }

    /// Returns the output from now on; `None`: the log is complete.
    pub(crate) fn attach(&self) -> Option<broadcast::Receiver<Output>> {
        let mut live = self.live.lock().expect("no code panics while holding it");
        if self.lines.lock().expect("no code panics while holding it").is_complete {
            return None;
        }
        Some(live.get_or_insert_with(|| broadcast::Sender::new(ATTACHED_BEHIND)).subscribe())
    }

    fn push(&self, text: Bytes) {
        let at = self.clock.now();
        {
            let mut lines = self.lines.lock().expect("no code panics while holding it");
            lines.bytes += text.len();
            lines.kept.push_back(Line { at, text });
            while lines.bytes > KEPT_BYTES
                && let Some(oldest) = lines.kept.pop_front()
            {
                lines.bytes -= oldest.text.len();
                lines.dropped += 1;
            }
        }
        self.grown.send_replace(());
    }

    /// Marks the log as complete.
    pub(crate) fn end(&self) {
        self.lines.lock().expect("no code panics while holding it").is_complete = true;
        drop(self.live.lock().expect("no code panics while holding it").take());
        self.grown.send_replace(());
    }

    /// Returns the lines from a number on, the number after the last, and whether the log is complete.
    pub(crate) fn read(&self, from: u64) -> (Vec<Line>, u64, bool) {
        let lines = self.lines.lock().expect("no code panics while holding it");
        let skip = usize::try_from(from.saturating_sub(lines.dropped)).unwrap_or(usize::MAX);
        let next = lines.dropped + lines.kept.len() as u64;
        (lines.kept.iter().skip(skip).cloned().collect(), next, lines.is_complete)
    }

    /// Returns a receiver that changes when there is more to read.
    pub(crate) fn grown(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    /// Adds output that begins in the middle of `line`, and leaves the line that it ends with there.
    fn append(&self, chunk: &[u8], kind: fn(Bytes) -> Output, line: &mut Vec<u8>) {
        self.send_live(|| kind(Bytes::copy_from_slice(chunk)));
        for byte in chunk {
            line.push(*byte);
            if *byte == b'\n' || line.len() >= LONGEST_LINE {
                self.push(std::mem::take(line).into());
            }
        }
    }

    /// Copies all lines of a terminal.
    pub(crate) async fn copy_terminal(self: Arc<Self>, terminal: Terminal) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 8 << 10];
        while let Ok(count @ 1..) = terminal.read(&mut chunk).await {
            self.append(&chunk[..count], Output::Stdout, &mut line);
        }
        if !line.is_empty() {
            self.push(line.into());
        }
    }

    /// Copies all lines of a pipe.
    pub(crate) async fn copy_from(
        self: Arc<Self>,
        mut from: impl AsyncRead + Unpin,
        kind: fn(Bytes) -> Output,
    ) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 8 << 10];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            self.append(&chunk[..count], kind, &mut line);
        }
        if !line.is_empty() {
            self.push(line.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_kept_in_order_and_the_oldest_go_first() {
        let log = Arc::new(Log::new(Clock::system()));
        Arc::clone(&log).copy_from(&b"one\ntwo\nthree"[..], Output::Stdout).await;
        let (lines, next, is_complete) = log.read(1);
        let text: Vec<&[u8]> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(text, [&b"two\n"[..], b"three"]);
        assert!(next == 3 && !is_complete);
        (0..1000).for_each(|_| log.write(Output::Stdout(vec![b'x'; 1 << 10].into())));
        let (lines, next, _) = log.read(0);
        assert!(lines.len() <= 256 && next == 1003, "{} {next}", lines.len());
        let endless = vec![b'y'; 3 * LONGEST_LINE + 1];
        Arc::clone(&log).copy_from(&endless[..], Output::Stderr).await;
        assert_eq!(log.read(next).0.len(), 4, "a line without end is split");
    }
}
