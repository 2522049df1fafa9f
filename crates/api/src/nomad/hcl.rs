//! Reads HCL.

use hcl::Value;
use hcl::edit::Span;
use hcl::edit::structure::{Body, Structure};
use hcl::eval::{Context, Evaluate, FuncArgs, FuncDef, ParamType};

use super::Fault;
use super::block::{Attribute, Block, Scalar, children};
use crate::Problem;

/// Reads a file; expressions are worked out, with `jsonencode` as the only function and no variables.
pub(super) fn read(text: &str) -> Result<Block, Fault> {
    let body = hcl::edit::parser::parse_body(text).map_err(|err| Fault {
        line: err.location().line(),
        problem: Problem::new("", format!("not HCL: {}", err.message())),
    })?;
    let mut context = Context::new();
    context.declare_func("jsonencode", FuncDef::builder().param(ParamType::Any).build(json_encode));
    let file = Block { line: 1, ..Block::default() };
    Reader { lines: Lines::of(text), context }.body(&body, file)
}

fn json_encode(args: FuncArgs) -> Result<Value, String> {
    let value = args.iter().next().ok_or("jsonencode takes a value")?;
    serde_json::to_string(value).map(Value::from).map_err(|err| err.to_string())
}

/// Tells offsets' lines.
struct Lines {
    /// Where each line begins.
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let after = text.match_indices('\n').map(|(index, _)| index + 1);
        Self { starts: std::iter::once(0).chain(after).collect() }
    }

    fn line(&self, thing: &impl Span) -> usize {
        let offset = thing.span().map_or(0, |span| span.start);
        self.starts.partition_point(|start| *start <= offset)
    }
}

struct Reader<'a> {
    lines: Lines,
    context: Context<'a>,
}

impl Reader<'_> {
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
                    let value = expression
                        .evaluate(&self.context)
                        .map_err(|err| fault(line, name, &err.to_string()))?;
                    let name = name.to_owned();
                    into.attributes.extend(scalar(&value).map(|value| Attribute {
                        name,
                        line,
                        value,
                    }));
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

/// Gives a value as a field takes it; `None` where it is null, which is as if it were not written.
fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Null => None,
        Value::Bool(is) => Some(Scalar::Bool(*is)),
        Value::Number(number) => Some(number.as_f64().map_or(Scalar::Other, Scalar::Number)),
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Array(_) | Value::Object(_) => Some(Scalar::Other),
    }
}
