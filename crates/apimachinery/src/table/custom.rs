//! Columns and cells of custom kinds.

use super::columns::description;
use super::{age, jsonpath};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A column that a CustomResourceDefinition declares.
#[derive(Clone, Debug, PartialEq)]
pub struct PrinterColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: jsonpath::Path,
}

impl PrinterColumn {
    /// Parses the `additionalPrinterColumns` of a version; without any, the age is shown.
    pub fn all(version: &Value) -> Vec<Self> {
        let declared =
            version["additionalPrinterColumns"].as_array().map_or(&[][..], Vec::as_slice);
        if declared.is_empty() {
            let description = description("@ObjectMeta creationTimestamp");
            let path = ".metadata.creationTimestamp";
            let age = json!({"name": "Age", "type": "date", "jsonPath": path, "description": description});
            return Self::read(&age).into_iter().collect();
        }
        // An invalid path ends the columns, as in kube-apiserver.
        declared.iter().map_while(Self::read).collect()
    }

    fn read(column: &Value) -> Option<Self> {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            given if !given.is_empty() => given,
            _ => format!("Custom resource definition column (in JSONPath format): {path}"),
        };
        Some(Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description,
            priority: column["priority"].as_i64().unwrap_or_default(),
            path: jsonpath::Path::parse(&path)?,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("string", Value::Null) => json!("<nil>"),
            ("string", value) => json!(jsonpath::print(value)),
            ("integer", Value::Number(number)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a column of integers shows the whole part"
                )]
                let whole = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
                json!(whole)
            }
            ("number", Value::Number(number)) => json!(number.as_f64()),
            ("boolean", Value::Bool(boolean)) => json!(boolean),
            ("date", Value::String(text)) => match age::moment(value) {
                Some(_) => json!(age::since(value, now)),
                None if text.is_empty() || text == "null" => json!("<unknown>"),
                None => json!("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

/// Builds the column definitions, the name first.
pub(super) fn definitions(columns: &[PrinterColumn]) -> Value {
    let name = json!({
        "name": "Name", "type": "string", "format": "name", "description": description("@ObjectMeta name"), "priority": 0,
    });
    let own = columns.iter().map(|column| {
        json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    });
    std::iter::once(name).chain(own).collect()
}

/// Builds the cells, the name first.
pub(super) fn cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let own = columns.iter().map(|column| column.cell(object, now));
    std::iter::once(json!(name)).chain(own).collect()
}
