//! A table of figures, for the terminal, for `docs/performance.md` and as JSON.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;

/// The figures of one bench.
#[derive(Serialize)]
pub(crate) struct Report {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Notes that a reader needs to judge the figures.
    notes: Vec<String>,
}

impl Report {
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row, and shows it at once beside the table to come, since all of them may take an hour.
    pub(crate) fn row(&mut self, cells: &[&str]) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        eprintln!("{}", cells.join(" | "));
        self.rows.push(cells.iter().map(|c| (*c).to_owned()).collect());
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the table as Markdown whose columns line up, ready for `docs/performance.md`.
    pub(crate) fn print(&self) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let width = |i: usize| {
            std::iter::once(&self.columns)
                .chain(&self.rows)
                .map(|r| r[i].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        writeln!(out, "### {}\n", self.title)?;
        line(&mut out, &self.columns, &widths)?;
        let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        line(&mut out, &rules, &widths)?;
        self.rows.iter().try_for_each(|row| line(&mut out, row, &widths))?;
        self.notes.iter().try_for_each(|note| writeln!(out, "\n{note}"))
    }
}

fn line(out: &mut impl Write, cells: &[String], widths: &[usize]) -> std::io::Result<()> {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    writeln!(out, "| {} |", padded.join(" | "))
}

/// Returns the duration below which a share of them lies, in the order of their length; there is at least one.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[index]
}

/// Shows a duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}
