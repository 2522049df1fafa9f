//! Reads YAML: one document after the other, and the items of a List one by one.

use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

use serde::de::DeserializeSeed as _;
use serde_saphyr::options::NonFiniteFloatPolicy;

use super::object::{Document, MAX_DEPTH, Reading};
use super::source::Source;
use super::{Entry, Position};

/// Emits every object of a file.
pub(super) fn read(
    source: Source,
    handle: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut documents = Documents::new(source);
    let mut number = 1;
    while documents.next()? {
        let mut reading = Reading::new(Position::Document(number), handle);
        let read = serde_saphyr::with_deserializer_from_reader_with_options(
            &mut documents,
            options(),
            |yaml| Document::new(&mut reading).deserialize(yaml),
        );
        match read {
            // Comments alone, or nothing at all, are not counted as a document.
            Ok(has_content) => number += usize::from(has_content),
            Err(err) => {
                if report(&mut reading, err.without_snippet()).is_break() {
                    break;
                }
                number += 1;
            }
        }
    }
    Ok(())
}

fn report(reading: &mut Reading<'_>, err: &serde_saphyr::Error) -> ControlFlow<()> {
    if let serde_saphyr::Error::DuplicateMappingKey { key, location } = err {
        return reading.report_duplicate_key(key.as_deref().unwrap_or_default(), location.line());
    }
    let message = err.to_string();
    reading.fail("YAML", message.lines().next().unwrap_or_default())
}

/// The limits apply to each document. A List may be of any size, but not deeply nested or expanded from aliases.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: 2 * MAX_DEPTH,
        },
        // `.nan` is a missing sample, which is null in JSON.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// Splits text into YAML documents. A line that begins with `---` or `...` and then a space or nothing is a marker
/// wherever it stands: no scalar, however quoted, may contain one.
struct Documents<R> {
    source: R,
    /// The current piece of a line, and how much of it was read.
    line: Vec<u8>,
    consumed: usize,
    /// Whether the next piece begins a line.
    at_line_start: bool,
    /// Whether something other than directives, comments and empty lines belongs to this document.
    has_content: bool,
    state: SplitState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitState {
    InDocument,
    /// At the end of a document. A line that is held belongs to the next.
    Between,
    AtEnd,
}

/// The maximum size of a piece of a line.
const MAX_PIECE: u64 = 64 * 1024;

impl<R: BufRead> Documents<R> {
    fn new(source: R) -> Self {
        let (line, state) = (Vec::new(), SplitState::Between);
        Self { source, line, consumed: 0, at_line_start: true, has_content: false, state }
    }

    /// Skips the rest of this document and moves on to the next; false at the end of the file.
    fn next(&mut self) -> io::Result<bool> {
        while self.state == SplitState::InDocument {
            self.fill()?;
        }
        while self.state == SplitState::Between {
            self.has_content = false;
            if self.consumed < self.line.len() {
                self.enter();
            } else {
                self.fill()?;
            }
        }
        Ok(self.state == SplitState::InDocument)
    }

    /// Reads the next piece of a line.
    fn fill(&mut self) -> io::Result<()> {
        self.line.clear();
        self.consumed = 0;
        self.source.by_ref().take(MAX_PIECE).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            self.state = SplitState::AtEnd;
            return Ok(());
        }
        let starts_line = std::mem::replace(&mut self.at_line_start, self.line.ends_with(b"\n"));
        if starts_line && is_marker(&self.line, b"...") {
            // Only a comment can follow on its line.
            self.consumed = self.line.len();
            self.state = SplitState::Between;
        } else if starts_line && is_marker(&self.line, b"---") && self.has_content {
            self.state = SplitState::Between;
        } else {
            self.enter();
        }
        Ok(())
    }

    /// Adds the piece of a line to this document.
    fn enter(&mut self) {
        self.state = SplitState::InDocument;
        let first = self.line.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_directive = self.line.starts_with(b"%");
        self.has_content |= first.is_some_and(|byte| *byte != b'#') && !is_directive;
    }
}

fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.first().is_none_or(|byte| byte.is_ascii_whitespace()))
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.consumed == self.line.len() && self.state == SplitState::InDocument {
            self.fill()?;
        }
        if self.state != SplitState::InDocument {
            return Ok(0);
        }
        let read = (&self.line[self.consumed..]).read(into)?;
        self.consumed += read;
        Ok(read)
    }
}
