//! Matches the figures of two revisions, and computes their medians.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;
use serde_json::Value;

/// The table that a bench wrote.
#[derive(Debug)]
pub(super) struct Report {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Medians of both revisions, one line for each figure, in the order of this checkout's table.
pub(super) struct Comparison {
    title: String,
    rounds: usize,
    figures: Vec<Figure>,
}

struct Figure {
    name: String,
    unit: String,
    before: Option<f64>,
    now: f64,
}

/// A figure's name and unit, with its value.
type Cells = Vec<(String, String, f64)>;

impl Report {
    /// Reads what a bench wrote with `--json`.
    pub(super) fn read(json: &[u8]) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_slice(json).context("the figures are no JSON")?;
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|cell| Some(cell.as_str()?.to_owned())).collect()
        };
        let read = || {
            let rows = value["rows"].as_array()?.iter().map(texts).collect::<Option<_>>()?;
            let title = value["title"].as_str()?.to_owned();
            Some(Self { title, columns: texts(&value["columns"])?, rows })
        };
        read().context("the figures are no table: expected `title`, `columns` and `rows` of texts")
    }

    /// Returns the figures: every cell that is a number with or without a unit, named by what its row is about and by its column.
    fn figures(&self) -> Cells {
        let labels = self.labels();
        let mut figures = Vec::new();
        for row in &self.rows {
            let about: Vec<&str> = row.iter().take(labels).map(String::as_str).collect();
            let mut met: BTreeMap<&str, usize> = BTreeMap::new();
            for (column, cell) in self.columns.iter().zip(row).skip(labels) {
                // A table may have two columns of one name.
                let nth = met.entry(column).and_modify(|nth| *nth += 1).or_insert(1);
                let again = if *nth > 1 { format!(" ({nth})") } else { String::new() };
                if let Some((value, unit)) = number(cell) {
                    let name = format!("{}: {column}{again}", about.join(" "));
                    figures.push((name, unit.to_owned(), value));
                }
            }
        }
        figures
    }

    /// Returns how many of the first columns identify a row: as many as make all rows distinct, and at least one.
    fn labels(&self) -> usize {
        let is_distinct = |count: &usize| {
            let mut keys: Vec<&[String]> =
                self.rows.iter().map(|row| &row[..(*count).min(row.len())]).collect();
            keys.sort_unstable();
            keys.windows(2).all(|pair| pair[0] != pair[1])
        };
        (1..self.columns.len()).find(is_distinct).unwrap_or(1)
    }
}

/// Reads `12`, `0.53 ms` or `3.1×`; not `10 to 20`, which is a range.
fn number(cell: &str) -> Option<(f64, &str)> {
    let digits = cell.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(cell.len());
    let (value, unit) = cell.split_at(digits);
    let unit = unit.trim();
    if unit.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((value.parse().ok()?, unit))
}

impl Comparison {
    /// Puts the medians side by side. What only the other revision measured is left out.
    pub(super) fn new(before: &[Report], now: &[Report]) -> anyhow::Result<Self> {
        let first = now.first().context("nothing was measured")?;
        let (all_before, all_now) = (gather(before), gather(now));
        let figures = first.figures().into_iter().map(|(name, unit, value)| Figure {
            before: all_before.get(&name).map(|values| median(values)),
            now: all_now.get(&name).map_or(value, |values| median(values)),
            name,
            unit,
        });
        Ok(Self { title: first.title.clone(), rounds: now.len(), figures: figures.collect() })
    }

    /// Prints the table as Markdown.
    pub(super) fn print(&self, revision: &str, out: &mut impl Write) -> std::io::Result<()> {
        let head = ["", revision, "this checkout", "ratio"].map(str::to_owned);
        let mut rows = vec![head];
        rows.extend(self.figures.iter().map(Figure::row));
        let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: [usize; 4] = std::array::from_fn(width);
        rows.insert(1, widths.map(|width| "-".repeat(width)));
        writeln!(out, "### {}, next to {revision}\n", self.title)?;
        for row in &rows {
            let padded: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(out, "| {} |", padded.join(" | "))?;
        }
        writeln!(
            out,
            "\nMedians of {} runs of each, alternating. The ratio is this checkout's figure to the other's: above 1 is better for rates (/s), worse \
             for times and memory.",
            self.rounds
        )
    }
}

impl Figure {
    fn row(&self) -> [String; 4] {
        let shown = |value: f64| {
            let text = if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
            format!("{text} {}", self.unit).trim_end().to_owned()
        };
        let before = self.before.map_or(String::new(), shown);
        let ratio = self.before.filter(|before| *before != 0.0);
        let ratio = ratio.map_or(String::new(), |before| format!("{:.2}", self.now / before));
        [self.name.clone(), before, shown(self.now), ratio]
    }
}

/// Returns every value of each figure.
fn gather(reports: &[Report]) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, _, value) in reports.iter().flat_map(Report::figures) {
        all.entry(name).or_default().push(value);
    }
    all
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(columns: &[&str], rows: &[&[&str]]) -> Report {
        let json = json!({"title": "T", "columns": columns, "rows": rows, "notes": ["n"]});
        Report::read(json.to_string().as_bytes()).unwrap()
    }

    fn engine(creates: &str, get: &str) -> Report {
        report(
            &["", "embedded engine", "kube-apiserver + etcd", "ratio"],
            &[
                &["durable creates, 16 writers", creates, "1000 /s", "2.0×"],
                &["get, median", get, "0.90 ms", "3.0×"],
                &["durable creates in process, 1 writers", "70 /s", "", ""],
            ],
        )
    }

    #[test]
    fn medians_are_put_side_by_side_with_their_ratio() {
        let before: Vec<Report> =
            ["4000 /s", "2000 /s", "3000 /s"].map(|rate| engine(rate, "0.30 ms")).into();
        let now: Vec<Report> =
            ["2400 /s", "9000 /s", "1000 /s"].map(|rate| engine(rate, "0.45 ms")).into();
        let mut out = Vec::new();
        Comparison::new(&before, &now).unwrap().print("abc", &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let line = |about: &str| {
            let line = out.lines().find(|line| line.contains(about)).expect("it is there");
            line.split('|').map(str::trim).skip(2).take(3).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(line("16 writers: embedded engine"), "3000 /s | 2400 /s | 0.80");
        assert_eq!(line("get, median: embedded engine"), "0.30 ms | 0.45 ms | 1.50");
        assert_eq!(line("in process, 1 writers: embedded"), "70.00 /s | 70.00 /s | 1.00");
        assert!(!out.contains("in process, 1 writers: ratio"), "an empty cell is no figure: {out}");
    }

    #[test]
    fn rows_are_identified_by_as_many_columns_as_necessary_and_ranges_are_not_figures() {
        let columns =
            ["on", "protocol", "clients", "allocations/s", "spread", "p50", "spread", "p50"];
        let rows: [&[&str]; 3] = [
            &["embedded", "process", "1", "100", "90 to 110", "0.10", "1 to 2", "0.20"],
            &["embedded", "process", "8", "300", "290 to 310", "0.11", "1 to 2", "0.21"],
            &["embedded", "gRPC", "8", "200", "190 to 210", "0.12", "1 to 2", "0.22"],
        ];
        let figures = report(&columns, &rows).figures();
        let names: Vec<&str> = figures.iter().take(3).map(|(name, _, _)| name.as_str()).collect();
        let about = "embedded process 1";
        let wanted = ["allocations/s", "p50", "p50 (2)"].map(|column| format!("{about}: {column}"));
        assert_eq!(names, wanted);
        assert_eq!(figures.len(), 9);
    }

    #[test]
    fn rows_without_a_measurement_of_the_other_revision_have_no_ratio() {
        let before = report(&["case", "time"], &[&["a", "10 ms"]]);
        let now = report(&["case", "time"], &[&["b", "5 ms"], &["a", "20 ms"]]);
        let comparison = Comparison::new(&[before], &[now]).unwrap();
        let rows: Vec<[String; 4]> = comparison.figures.iter().map(Figure::row).collect();
        assert_eq!(rows[0], ["b: time", "", "5.00 ms", ""]);
        assert_eq!(rows[1], ["a: time", "10.00 ms", "20.00 ms", "2.00"]);
    }

    #[test]
    fn text_without_a_table_is_rejected() {
        for json in ["", "{}", r#"{"title": "T", "columns": [1], "rows": []}"#] {
            assert!(Report::read(json.as_bytes()).is_err(), "{json}");
        }
    }
}
