//! The syntax tree of a policy file, the same for HCL and JSON.

use super::evaluate::Value;
use super::number::Number;

/// A block: attributes and further blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    /// The type: `scaling`, `policy`, `check`; empty for the file as a whole.
    pub(super) kind: String,
    /// The text after it; empty where it takes none.
    pub(super) label: String,
    pub(super) line: usize,
    pub(super) attributes: Vec<Attribute>,
    pub(super) blocks: Vec<Block>,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) value: Scalar,
}

/// A single value. Which type it was written as matters little: the fields that take it convert it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Number(Number),
    Bool(bool),
    /// Null, which no field takes.
    Null,
    /// A list, an object: nothing that a field takes.
    Other,
}

impl Scalar {
    /// Returns it as text, as a field that takes text does.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::Bool(is) => Some(is.to_string()),
            Self::Null | Self::Other => None,
        }
    }

    /// Returns whether it is text without content, which stands for nothing in a strategy.
    pub(super) fn is_empty_text(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl From<Value> for Scalar {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is) => Self::Bool(is),
            Value::Number(number) => Self::Number(number),
            Value::Text(text) => Self::Text(text),
            Value::List(_) | Value::Object(_) => Self::Other,
        }
    }
}

/// Which blocks a block may hold, and whether they have labels.
pub(super) fn children(kind: &str) -> &'static [(&'static str, bool)] {
    match kind {
        "" => &[("scaling", true)],
        "scaling" => &[("policy", false)],
        "policy" => &[("schedule", false), ("check", true), ("target", true)],
        "check" => &[("schedule", false), ("strategy", true)],
        _ => &[],
    }
}

impl Block {
    /// Finds an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the blocks of one kind.
    pub(super) fn blocks<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Self> {
        self.blocks.iter().filter(move |block| block.kind == kind)
    }
}
