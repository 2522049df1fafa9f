//! Reads YAML: one document after the other, and the items of a List one by one.

use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

use serde::de::DeserializeSeed as _;
use serde_saphyr::options::NonFiniteFloatPolicy;

use super::object::{Document, MAX_DEPTH, Reading};
use super::source::Source;
use super::{Entry, Place};

/// Passes on every object of a file.
pub(super) fn read(
    source: Source,
    take: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut documents = Documents::of(source);
    let mut number = 1;
    while documents.next()? {
        let mut reading = Reading::new(Place::Document(number), take);
        let read = serde_saphyr::with_deserializer_from_reader_with_options(
            &mut documents,
            options(),
            |yaml| Document::of(&mut reading).deserialize(yaml),
        );
        match read {
            // Comments alone, or nothing at all, are no document.
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
        return reading.refuse_key(key.as_deref().unwrap_or_default(), location.line());
    }
    let message = err.to_string();
    reading.fail("YAML", message.lines().next().unwrap_or_default())
}

/// The limits hold for each document. A List may be of any size, but neither deep nor made of aliases.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: 2 * MAX_DEPTH,
        },
        // A number that is none (`.nan`) is a point that was not measured; in JSON's terms it is null.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

/// Splits text into YAML documents. A line that begins with `---` or `...` and then a space or nothing is a marker
/// wherever it stands: no scalar, however quoted, may contain one.
struct Documents<R> {
    source: R,
    /// The piece of a line that is passed on next, and how much of it is.
    line: Vec<u8>,
    passed: usize,
    /// Whether the next piece begins a line.
    at_line_start: bool,
    /// Whether something other than directives, comments and empty lines belongs to this document.
    has_content: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InDocument,
    /// At the end of a document. A line that is held belongs to the next.
    Between,
    AtEnd,
}

/// The longest piece of a line that is held.
const PIECE: u64 = 64 * 1024;

impl<R: BufRead> Documents<R> {
    fn of(source: R) -> Self {
        let (line, state) = (Vec::new(), State::Between);
        Self { source, line, passed: 0, at_line_start: true, has_content: false, state }
    }

    /// Skips the rest of this document and moves on to the next; false at the end of the file.
    fn next(&mut self) -> io::Result<bool> {
        while self.state == State::InDocument {
            self.fill()?;
        }
        while self.state == State::Between {
            self.has_content = false;
            if self.passed < self.line.len() {
                self.enter();
            } else {
                self.fill()?;
            }
        }
        Ok(self.state == State::InDocument)
    }

    /// Reads the next piece of a line.
    fn fill(&mut self) -> io::Result<()> {
        self.line.clear();
        self.passed = 0;
        self.source.by_ref().take(PIECE).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            self.state = State::AtEnd;
            return Ok(());
        }
        let starts_line = std::mem::replace(&mut self.at_line_start, self.line.ends_with(b"\n"));
        if starts_line && is_marker(&self.line, b"...") {
            // Only a comment can follow on its line.
            self.passed = self.line.len();
            self.state = State::Between;
        } else if starts_line && is_marker(&self.line, b"---") && self.has_content {
            self.state = State::Between;
        } else {
            self.enter();
        }
        Ok(())
    }

    /// Counts the piece of a line as a part of this document.
    fn enter(&mut self) {
        self.state = State::InDocument;
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
        if self.passed == self.line.len() && self.state == State::InDocument {
            self.fill()?;
        }
        if self.state != State::InDocument {
            return Ok(0);
        }
        let read = (&self.line[self.passed..]).read(into)?;
        self.passed += read;
        Ok(read)
    }
}
