//! The server's tables, printed with aligned columns.

use jiff::{SignedDuration, Timestamp};
use process::Clock;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::print;
use crate::args::{ObjectOutput, View};

/// The spaces between two columns, and the minimum width of a column including them, as in kubectl.
const GAP: usize = 3;
const MIN_WIDTH: usize = 6;

/// A table of objects.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    #[serde(default, deserialize_with = "null_as_empty")]
    column_definitions: Vec<Column>,
    #[serde(default, deserialize_with = "null_as_empty")]
    rows: Vec<Row>,
}

/// Reads a list that may be null, as Go's encoder writes empty ones.
fn null_as_empty<'d, T: Deserialize<'d>, D: Deserializer<'d>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Clone, Debug, Deserialize)]
struct Column {
    name: String,
    #[serde(default)]
    format: String,
    /// 0 for columns that are always shown.
    #[serde(default)]
    priority: i32,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(default)]
    cells: Vec<Value>,
    #[serde(default)]
    object: Value,
}

impl Table {
    /// Reads a table. A server that has none for a kind responds with objects, whose names and ages are shown.
    pub(super) fn from_response(response: Value) -> serde_json::Result<Self> {
        if response["kind"] == "Table" {
            return serde_json::from_value(response);
        }
        let now = Clock::system().now();
        let row = |object: Value| {
            let cells = vec![object["metadata"]["name"].clone(), age(&object, now)];
            Row { cells, object: json!({"metadata": object["metadata"]}) }
        };
        let column = |name: &str, format: &str| Column {
            name: name.to_owned(),
            format: format.to_owned(),
            priority: 0,
        };
        Ok(Self {
            column_definitions: vec![column("Name", "name"), column("Age", "")],
            rows: print::items(response).into_iter().map(row).collect(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the rows of a table of the same kind.
    pub(super) fn append(&mut self, other: Self) {
        if self.column_definitions.is_empty() {
            self.column_definitions = other.column_definitions;
        }
        self.rows.extend(other.rows);
    }
}

/// Returns the age of an object in its largest unit.
fn age(object: &Value, now: Timestamp) -> Value {
    let created = object["metadata"]["creationTimestamp"].as_str();
    let Some(created) = created.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return json!("<unknown>");
    };
    let seconds = now.duration_since(created).max(SignedDuration::ZERO).as_secs();
    json!(match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    })
}

/// Prints tables. The width of columns is kept for the rows that follow in a watch.
#[derive(Clone)]
pub(super) struct TablePrinter {
    is_wide: bool,
    has_header: bool,
    has_namespaces: bool,
    /// The kind, before the names of objects.
    prefix: Option<String>,
    columns: Vec<Column>,
    widths: Vec<usize>,
    is_started: bool,
}

impl TablePrinter {
    pub(super) fn new(view: &View, has_namespaces: bool) -> Self {
        Self {
            is_wide: view.output == Some(ObjectOutput::Wide),
            has_header: !view.no_headers,
            has_namespaces,
            prefix: None,
            columns: Vec::new(),
            widths: Vec::new(),
            is_started: false,
        }
    }

    /// Prints names with their kind.
    pub(super) fn prefix_names(&mut self, kind: &str) {
        self.prefix = Some(format!("{kind}/"));
    }

    /// Returns the lines of a table, with the header before the first row. `event` is the type of the event of a watch.
    pub(super) fn lines(&mut self, table: Table, event: Option<&str>) -> String {
        // Only the first event of a watch has to have the columns.
        if !table.column_definitions.is_empty() {
            self.columns = table.column_definitions;
        }
        if table.rows.is_empty() {
            return String::new();
        }
        let is_first = !std::mem::replace(&mut self.is_started, true);
        let mut lines: Vec<Vec<String>> = Vec::with_capacity(table.rows.len() + 1);
        if is_first && self.has_header {
            lines.push(self.header(event.is_some()));
        }
        lines.extend(table.rows.iter().map(|row| self.row(row, event)));
        for line in &lines {
            for (number, cell) in line.iter().enumerate() {
                let width = (cell.chars().count() + GAP).max(MIN_WIDTH);
                match self.widths.get_mut(number) {
                    Some(known) => *known = width.max(*known),
                    None => self.widths.push(width),
                }
            }
        }
        lines.iter().map(|line| self.align(line)).collect()
    }

    fn header(&self, has_event: bool) -> Vec<String> {
        let extra = [(has_event, "EVENT"), (self.has_namespaces, "NAMESPACE")];
        let extra = extra.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, name)| name);
        let columns = self.columns.iter().filter(|column| self.is_shown(column));
        extra.map(str::to_owned).chain(columns.map(|column| column.name.to_uppercase())).collect()
    }

    fn row(&self, row: &Row, event: Option<&str>) -> Vec<String> {
        let namespace = row.object["metadata"]["namespace"].as_str().unwrap_or_default();
        let extra = [event, self.has_namespaces.then_some(namespace)];
        let mut line: Vec<String> = extra.into_iter().flatten().map(str::to_owned).collect();
        for (number, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
            if !self.is_shown(column) {
                continue;
            }
            let is_name = column.format == "name" || (number == 0 && column.name == "Name");
            let prefix = self.prefix.as_deref().filter(|_| is_name).unwrap_or_default();
            line.push(format!("{prefix}{}", cell_text(cell)));
        }
        line
    }

    fn is_shown(&self, column: &Column) -> bool {
        self.is_wide || column.priority == 0
    }

    fn align(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (number, cell) in cells.iter().enumerate() {
            let width = if number + 1 == cells.len() { 0 } else { self.widths[number] };
            line.push_str(&format!("{cell:width$}"));
        }
        line.push('\n');
        line
    }
}

/// Returns the text of a cell on one line.
fn cell_text(cell: &Value) -> String {
    let text = match cell {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => cell.to_string(),
    };
    match text.split_once('\n') {
        Some((first, _)) => format!("{first}..."),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer() -> TablePrinter {
        let view = View { output: None, no_headers: false, show_managed_fields: false };
        TablePrinter::new(&view, false)
    }

    fn table(names: &[&str]) -> Table {
        let rows: Vec<Value> = names
            .iter()
            .map(|name| {
                json!({"cells": [name, 1, null, "x\ny"], "object": {"metadata": {"namespace": "default"}}})
            })
            .collect();
        let columns = json!([
            {"name": "Name", "format": "name"}, {"name": "Ready"}, {"name": "Node", "priority": 1}, {"name": "Why"},
        ]);
        let table = json!({"kind": "Table", "columnDefinitions": columns, "rows": rows});
        Table::from_response(table).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_wide_ones_are_left_out() {
        let text = printer().lines(table(&["a", "longer"]), None);
        let expected = "NAME     READY   WHY\na        1       x...\nlonger   1       x...\n";
        assert_eq!(text, expected);
        let mut wide = TablePrinter { is_wide: true, has_namespaces: true, ..printer() };
        wide.prefix_names("pod");
        assert_eq!(
            wide.lines(table(&["a"]), None),
            "NAMESPACE   NAME    READY   NODE     WHY\ndefault     pod/a   1       <none>   x...\n"
        );
    }

    #[test]
    fn later_rows_of_a_watch_keep_the_columns() {
        let mut printer = printer();
        assert_eq!(printer.lines(table(&[]), Some("ADDED")), "", "no header without rows");
        printer.lines(table(&["longer"]), Some("ADDED"));
        // Later events of a watch have no columns.
        let next = json!({"kind": "Table", "columnDefinitions": null, "rows": [{"cells": ["a", 1, null, "x\ny"]}]});
        let next = Table::from_response(next).unwrap();
        assert_eq!(printer.lines(next, Some("DELETED")), "DELETED   a        1       x...\n");
    }

    #[test]
    fn objects_without_a_table_have_name_and_age() {
        let list = json!({"kind": "ThingList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]});
        let text = printer().lines(Table::from_response(list).unwrap(), None);
        assert_eq!(text, "NAME   AGE\na      <unknown>\n");
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        for (created, expected) in [
            ("2026-01-01T23:59:30Z", "30s"),
            ("2026-01-01T23:00:00Z", "60m"),
            ("2026-01-01T00:00:00Z", "24h"),
            ("2025-12-01T00:00:00Z", "32d"),
        ] {
            let object = json!({"metadata": {"creationTimestamp": created}});
            assert_eq!(age(&object, now), expected);
        }
    }
}
