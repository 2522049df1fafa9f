//! Reads HCL's JSON form: a block is an object under its kind and its label, several are a list or several labels.

use super::Fault;
use super::block::{Attribute, Block, Scalar, children};
use super::evaluate;
use super::number::Number;
use crate::Problem;

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Block, Fault> {
    // Checked first, so that the reader below never meets anything but JSON of a bounded depth.
    let checked: Result<serde_json::Value, _> = serde_json::from_str(text);
    checked.map_err(|err| fault(err.line().max(1), "", format!("not JSON: {err}")))?;
    let mut reader = Reader { rest: text.as_bytes(), line: 1 };
    let node = reader.node();
    body(&node, Block { line: 1, ..Block::default() })
}

fn fault(line: usize, path: &str, message: impl Into<String>) -> Fault {
    Fault { line, problem: Problem::new(path, message) }
}

/// A JSON value that knows its line.
struct Node {
    line: usize,
    value: Json,
}

enum Json {
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

fn body(node: &Node, mut into: Block) -> Result<Block, Fault> {
    let Json::Object(fields) = &node.value else {
        return Err(fault(node.line, &into.kind, "expected an object"));
    };
    let allowed = children(&into.kind);
    for (name, inner) in fields.iter().filter(|(name, _)| name != "//") {
        match allowed.iter().find(|(kind, _)| kind == name) {
            Some((kind, true)) => labelled(kind, inner, &mut into.blocks)?,
            Some((kind, false)) => blocks(kind, "", inner, &mut into.blocks)?,
            None if into.attribute(name).is_some() => {
                return Err(fault(inner.line, name, "is set twice in this block"));
            }
            None => {
                let value = scalar(inner).map_err(|message| fault(inner.line, name, message))?;
                into.attributes.push(Attribute { name: name.clone(), line: inner.line, value });
            }
        }
    }
    Ok(into)
}

/// Reads the blocks of a kind that has labels: an object of them, or a list of such objects.
fn labelled(kind: &str, node: &Node, into: &mut Vec<Block>) -> Result<(), Fault> {
    match &node.value {
        Json::Object(labels) => labels
            .iter()
            .filter(|(label, _)| label != "//")
            .try_for_each(|(label, inner)| blocks(kind, label, inner, into)),
        Json::List(list) => list.iter().try_for_each(|inner| labelled(kind, inner, into)),
        Json::Null => Ok(()),
        Json::Scalar(_) => Err(fault(node.line, kind, "expected an object under a name")),
    }
}

/// Reads one block, or a list of blocks with the same label.
fn blocks(kind: &str, label: &str, node: &Node, into: &mut Vec<Block>) -> Result<(), Fault> {
    match &node.value {
        Json::List(list) => list.iter().try_for_each(|inner| blocks(kind, label, inner, into)),
        Json::Null => Ok(()),
        Json::Object(_) | Json::Scalar(_) => {
            let (kind, label) = (kind.to_owned(), label.to_owned());
            into.push(body(node, Block { kind, label, line: node.line, ..Block::default() })?);
            Ok(())
        }
    }
}

/// Returns a value as a field takes it. Text may contain `${…}`.
fn scalar(node: &Node) -> Result<Scalar, String> {
    match &node.value {
        Json::Null => Ok(Scalar::Null),
        Json::Scalar(Scalar::Text(text)) => evaluate::template(text).map(Scalar::from),
        Json::Scalar(scalar) => Ok(scalar.clone()),
        Json::List(_) | Json::Object(_) => Ok(Scalar::Other),
    }
}

/// Walks over JSON that is known to be valid, counting lines.
struct Reader<'a> {
    rest: &'a [u8],
    line: usize,
}

impl Reader<'_> {
    fn node(&mut self) -> Node {
        self.skip_space();
        let line = self.line;
        let value = match self.rest.first() {
            Some(b'{') => Json::Object(self.items(|reader| {
                let name = reader.string();
                reader.skip_space();
                reader.advance(1);
                (name, reader.node())
            })),
            Some(b'[') => Json::List(self.items(Self::node)),
            Some(b'"') => Json::Scalar(Scalar::Text(self.string())),
            _ => self.word(),
        };
        Node { line, value }
    }

    /// Reads what stands between brackets and commas.
    fn items<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        self.advance(1);
        loop {
            self.skip_space();
            match self.rest.first() {
                Some(b',') => self.advance(1),
                Some(b']' | b'}') | None => break,
                Some(_) => items.push(item(self)),
            }
        }
        self.advance(1);
        items
    }

    fn string(&mut self) -> String {
        let mut end = 1;
        while self.rest.get(end).is_some_and(|byte| *byte != b'"') {
            end += if self.rest[end] == b'\\' { 2 } else { 1 };
        }
        let end = (end + 1).min(self.rest.len());
        let text = serde_json::from_slice(&self.rest[..end]).unwrap_or_default();
        self.advance(end);
        text
    }

    fn word(&mut self) -> Json {
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let end = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let word = std::str::from_utf8(&self.rest[..end]).unwrap_or_default();
        let value = match word {
            "true" | "false" => Json::Scalar(Scalar::Bool(word == "true")),
            word => Number::parse(word).map_or(Json::Null, |n| Json::Scalar(Scalar::Number(n))),
        };
        self.advance(end);
        value
    }

    fn skip_space(&mut self) {
        let end = self.rest.iter().position(|byte| !byte.is_ascii_whitespace());
        self.advance(end.unwrap_or(self.rest.len()));
    }

    fn advance(&mut self, by: usize) {
        let (passed, rest) = self.rest.split_at(by.min(self.rest.len()));
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.rest = rest;
    }
}
