//! Reads HCL.

use hcl::edit::Span;
use hcl::edit::structure::{Body, Structure};

use super::Fault;
use super::block::{Attribute, Block, children};
use super::evaluate;
use crate::Problem;

/// Reads a file; expressions are worked out.
pub(super) fn read(text: &str) -> Result<Block, Fault> {
    let body = hcl::edit::parser::parse_body(text).map_err(|err| {
        let line = err.location().line();
        if err.message().contains("redefined attribute") {
            let written = err.line().split('=').next().unwrap_or_default();
            let name = written.split_whitespace().next_back().unwrap_or_default();
            return fault(line, name, "is set twice in this block");
        }
        fault(line, "", &format!("not HCL: {}", err.message()))
    })?;
    let file = Block { line: 1, ..Block::default() };
    Reader { lines: Lines::new(text) }.body(&body, file)
}

/// Maps offsets to lines.
struct Lines {
    /// Where each line begins.
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str) -> Self {
        let after = text.match_indices('\n').map(|(index, _)| index + 1);
        Self { starts: std::iter::once(0).chain(after).collect() }
    }

    fn line(&self, thing: &impl Span) -> usize {
        let offset = thing.span().map_or(0, |span| span.start);
        self.starts.partition_point(|start| *start <= offset)
    }
}

struct Reader {
    lines: Lines,
}

impl Reader {
    fn body(&self, body: &Body, mut into: Block) -> Result<Block, Fault> {
        let allowed = children(&into.kind);
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    let (name, line) = (attribute.key.as_str(), self.lines.line(&attribute.key));
                    if allowed.iter().any(|(kind, _)| *kind == name) {
                        return Err(fault(line, name, "is a block: write it without `=`"));
                    }
                    let expression = hcl::Expression::from(attribute.value.clone());
                    let value = evaluate::expression(&expression)
                        .map_err(|message| fault(line, name, &message))?;
                    let (name, value) = (name.to_owned(), value.into());
                    into.attributes.push(Attribute { name, line, value });
                }
                Structure::Block(block) => {
                    let (kind, line) = (block.ident.as_str(), self.lines.line(&block.ident));
                    let Some((_, has_label)) = allowed.iter().find(|(name, _)| *name == kind)
                    else {
                        return Err(fault(line, kind, "unknown block"));
                    };
                    let labels: Vec<&str> = block.labels.iter().map(|l| l.as_str()).collect();
                    let label = match (labels.as_slice(), has_label) {
                        ([label], true) => (*label).to_owned(),
                        ([], false) => String::new(),
                        (_, true) => return Err(fault(line, kind, "needs one name after it")),
                        (_, false) => return Err(fault(line, kind, "takes no name after it")),
                    };
                    let inner = Block { kind: kind.to_owned(), label, line, ..Block::default() };
                    into.blocks.push(self.body(&block.body, inner)?);
                }
            }
        }
        Ok(into)
    }
}

fn fault(line: usize, path: &str, message: &str) -> Fault {
    Fault { line, problem: Problem::new(path, message) }
}
