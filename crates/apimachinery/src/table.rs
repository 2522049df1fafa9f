//! Tables for `kubectl get`.
//!
//! kubectl asks the server for a table: columns and, for each object, a row of cells. Built-in kinds have the columns and cells
//! of kube-apiserver's printers, custom kinds those of their definition, and all others a name and a time.

#![allow(clippy::wildcard_enum_match_arm, reason = "JSON's six types are all there will ever be")]

mod age;
mod cells;
mod cluster;
mod columns;
mod custom;
mod jsonpath;
mod network;
mod pod;
mod storage;
mod workloads;

pub use custom::PrinterColumn;

use columns::Column;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The source of a kind's columns.
pub enum Columns {
    /// A built-in kind.
    BuiltIn {
        /// The API group.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A custom kind, with the columns of its version.
    Custom(Vec<PrinterColumn>),
}

/// How much of each object is included in its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Only its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Parses the `includeObject` parameter; the error is the message of a 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                crate::quote::quote(other)
            )),
        }
    }
}

impl Columns {
    /// Builds a table of objects; `metadata` is the list's own, or holds one object's `resourceVersion`.
    ///
    /// Without `headers` the columns are omitted, as on a watch after its first event.
    pub fn table<'a>(
        &self,
        metadata: Value,
        objects: impl IntoIterator<Item = &'a Value>,
        include: Include,
        headers: bool,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> =
            objects.into_iter().map(|object| self.row(object, include, now)).collect();
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": if headers { self.definitions() } else { Value::Null },
            "rows": if rows.is_empty() && self.is_plain() { Value::Null } else { Value::Array(rows) },
        })
    }

    /// Builds the table of one object, for a get or a watch event.
    pub fn table_of_one(
        &self,
        object: &Value,
        include: Include,
        headers: bool,
        now: Timestamp,
    ) -> Value {
        let mut metadata = Map::new();
        if let Some(version) = object["metadata"].get("resourceVersion") {
            metadata.insert("resourceVersion".into(), version.clone());
        }
        self.table(Value::Object(metadata), [object], include, headers, now)
    }

    /// Returns whether the kind has no printer, so that only name and time are shown.
    fn is_plain(&self) -> bool {
        matches!(self, Self::BuiltIn { group, kind } if !columns::has_printer(group, kind))
    }

    fn definitions(&self) -> Value {
        match self {
            Self::BuiltIn { group, kind } => {
                columns::for_kind(group, kind).iter().map(Column::definition).collect()
            }
            Self::Custom(columns) => custom::definitions(columns),
        }
    }

    fn row(&self, object: &Value, include: Include, now: Timestamp) -> Value {
        let cells = match self {
            Self::BuiltIn { group, kind } => cells::for_object(group, kind, object, now),
            Self::Custom(columns) => custom::cells(columns, object, now),
        };
        let mut row = Map::new();
        row.insert("cells".into(), Value::Array(cells));
        if matches!(self, Self::BuiltIn { group, kind } if group.is_empty() && kind == "Pod")
            && let Some(conditions) = pod::conditions(object)
        {
            row.insert("conditions".into(), conditions);
        }
        row.insert("object".into(), include.part_of(object));
        Value::Object(row)
    }
}

impl Include {
    fn part_of(self, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Object => object.clone(),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
        }
    }
}

#[cfg(test)]
mod tests;
