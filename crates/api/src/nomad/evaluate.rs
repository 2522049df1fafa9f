//! Works out the expressions of policy files: no variables but those of `for`, and `jsonencode` as the only function.
//!
//! Values convert as they do there: text that is a number may be calculated with, and numbers and booleans may stand
//! in text. However an expression is written, it takes a bounded number of steps and a bounded amount of memory.

use std::collections::BTreeMap;

use hcl::expr::{
    BinaryOp, BinaryOperator, Expression, ForExpr, FuncCall, ObjectKey, Operation, Traversal,
    TraversalOperator, UnaryOp, UnaryOperator,
};
use hcl::template::{Element, Strip, Template};

use super::number::Number;

/// A value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// How many values and characters the expressions of one attribute may make.
const ROOM: usize = 4 << 20;

/// Works out an expression.
pub(super) fn expression(expression: &Expression) -> Result<Value, String> {
    Evaluator { room: ROOM, variables: Vec::new() }.value(expression)
}

/// Works out text that may contain `${…}`, as the JSON form has it.
pub(super) fn template(text: &str) -> Result<Value, String> {
    Evaluator { room: ROOM, variables: Vec::new() }.template(text)
}

struct Evaluator {
    room: usize,
    /// Innermost last.
    variables: Vec<(String, Value)>,
}

impl Evaluator {
    fn spend(&mut self, amount: usize) -> Result<(), String> {
        let left = self.room.checked_sub(amount).ok_or("makes too large a value")?;
        self.room = left;
        Ok(())
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, String> {
        self.spend(1)?;
        match expression {
            Expression::Null => Ok(Value::Null),
            Expression::Bool(is) => Ok(Value::Bool(*is)),
            Expression::Number(number) => Ok(Value::Number(number.into())),
            Expression::String(text) => self.text(text.clone()),
            Expression::Array(items) => {
                items.iter().map(|item| self.value(item)).collect::<Result<_, _>>().map(Value::List)
            }
            Expression::Object(fields) => {
                let mut object = BTreeMap::new();
                for (key, field) in fields.iter() {
                    let key = match key {
                        ObjectKey::Identifier(name) => name.to_string(),
                        ObjectKey::Expression(key) => text_of(self.value(key)?)?,
                        key => return Err(format!("`{key}` cannot be a key")),
                    };
                    object.insert(key, self.value(field)?);
                }
                Ok(Value::Object(object))
            }
            Expression::TemplateExpr(template) => match Template::from_expr(template) {
                Ok(template) => self.filled(&template),
                Err(err) => Err(err.to_string()),
            },
            Expression::Variable(name) => self.variable(name.as_str()),
            Expression::Traversal(traversal) => self.traversal(traversal),
            Expression::FuncCall(call) => self.call(call),
            Expression::Parenthesis(inner) => self.value(inner),
            Expression::Conditional(choice) => {
                let is_true = truth_of(self.value(&choice.cond_expr)?)?;
                self.value(if is_true { &choice.true_expr } else { &choice.false_expr })
            }
            Expression::Operation(operation) => match &**operation {
                Operation::Unary(operation) => self.unary(operation),
                Operation::Binary(operation) => self.binary(operation),
            },
            Expression::ForExpr(each) => self.each(each),
            other => Err(format!("`{other}` is not understood")),
        }
    }

    fn text(&mut self, text: String) -> Result<Value, String> {
        self.spend(text.len())?;
        Ok(Value::Text(text))
    }

    fn variable(&mut self, name: &str) -> Result<Value, String> {
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        let Some((_, value)) = known else {
            return Err(format!("there is no variable `{name}`; a policy file has none"));
        };
        let value = value.clone();
        self.spend(size(&value))?;
        Ok(value)
    }

    fn template(&mut self, text: &str) -> Result<Value, String> {
        if !text.contains("${") && !text.contains("%{") {
            return self.text(text.to_owned());
        }
        let template: Template = text.parse().map_err(|err: hcl::Error| err.to_string())?;
        self.filled(&template)
    }

    fn filled(&mut self, template: &Template) -> Result<Value, String> {
        let elements = template.elements();
        // Nothing but `${…}` is the value itself, whatever it is.
        if let [Element::Interpolation(only)] = elements {
            return self.value(&only.expr);
        }
        let strips = |index: Option<usize>| match index.and_then(|index| elements.get(index)) {
            Some(Element::Interpolation(inner)) => inner.strip,
            Some(Element::Literal(_) | Element::Directive(_)) | None => Strip::None,
        };
        let mut out = String::new();
        for (index, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(text) => {
                    let before = strips(index.checked_sub(1));
                    out.push_str(stripped(text, before, strips(Some(index + 1))));
                }
                Element::Interpolation(inner) => out.push_str(&text_of(self.value(&inner.expr)?)?),
                Element::Directive(_) => {
                    return Err("`%{` is not understood in a policy file".to_owned());
                }
            }
        }
        self.text(out)
    }

    fn call(&mut self, call: &FuncCall) -> Result<Value, String> {
        let name = call.name.to_string();
        match (name.as_str(), call.args.as_slice(), call.expand_final) {
            ("jsonencode", [argument], false) => {
                let json = json(self.value(argument)?).to_string();
                self.text(escaped(&json))
            }
            ("jsonencode", ..) => Err("jsonencode takes one value".to_owned()),
            _ => Err(format!("there is no function `{name}`; a policy file has jsonencode alone")),
        }
    }

    fn traversal(&mut self, traversal: &Traversal) -> Result<Value, String> {
        let value = self.value(&traversal.expr)?;
        self.walk(value, &traversal.operators)
    }

    fn walk(&mut self, mut value: Value, operators: &[TraversalOperator]) -> Result<Value, String> {
        for (index, operator) in operators.iter().enumerate() {
            let after = &operators[index + 1..];
            value = match operator {
                TraversalOperator::GetAttr(name) => member(value, name.as_str())?,
                TraversalOperator::LegacyIndex(at) => item(value, usize::try_from(*at).ok())?,
                TraversalOperator::Index(at) => {
                    let at = self.value(at)?;
                    if let (Value::Text(name), Value::Object(_)) = (&at, &value) {
                        member(value, name)?
                    } else {
                        let at = number_of(at)?.whole();
                        item(value, at.and_then(|at| usize::try_from(at).ok()))?
                    }
                }
                TraversalOperator::FullSplat => return self.splat(value, after),
                TraversalOperator::AttrSplat => {
                    let is_name =
                        |o: &&TraversalOperator| matches!(o, TraversalOperator::GetAttr(_));
                    let (names, rest) = after.split_at(after.iter().take_while(is_name).count());
                    let list = self.splat(value, names)?;
                    return self.walk(list, rest);
                }
            };
        }
        Ok(value)
    }

    fn splat(&mut self, value: Value, operators: &[TraversalOperator]) -> Result<Value, String> {
        let items = match value {
            Value::List(items) => items,
            Value::Null => Vec::new(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Object(_)) => {
                vec![other]
            }
        };
        let items = items.into_iter().map(|item| self.walk(item, operators));
        items.collect::<Result<_, _>>().map(Value::List)
    }

    fn unary(&mut self, operation: &UnaryOp) -> Result<Value, String> {
        let value = self.value(&operation.expr)?;
        match operation.operator {
            UnaryOperator::Neg => number_of(value)?.negated().map(Value::Number),
            UnaryOperator::Not => truth_of(value).map(|is| Value::Bool(!is)),
        }
    }

    fn binary(&mut self, operation: &BinaryOp) -> Result<Value, String> {
        let (left, right) = (self.value(&operation.lhs_expr)?, self.value(&operation.rhs_expr)?);
        let calculate: fn(Number, Number) -> Result<Number, String> = match operation.operator {
            BinaryOperator::Eq => return Ok(Value::Bool(left == right)),
            BinaryOperator::NotEq => return Ok(Value::Bool(left != right)),
            BinaryOperator::And => return Ok(Value::Bool(truth_of(left)? & truth_of(right)?)),
            BinaryOperator::Or => return Ok(Value::Bool(truth_of(left)? | truth_of(right)?)),
            BinaryOperator::Less => return ordered(left, right, std::cmp::Ordering::is_lt),
            BinaryOperator::LessEq => return ordered(left, right, std::cmp::Ordering::is_le),
            BinaryOperator::Greater => return ordered(left, right, std::cmp::Ordering::is_gt),
            BinaryOperator::GreaterEq => return ordered(left, right, std::cmp::Ordering::is_ge),
            BinaryOperator::Plus => Number::plus,
            BinaryOperator::Minus => Number::minus,
            BinaryOperator::Mul => Number::times,
            BinaryOperator::Div => Number::divided_by,
            BinaryOperator::Mod => Number::modulo,
        };
        calculate(number_of(left)?, number_of(right)?).map(Value::Number)
    }

    fn each(&mut self, each: &ForExpr) -> Result<Value, String> {
        let pairs: Vec<(Value, Value)> = match self.value(&each.collection_expr)? {
            Value::List(items) => {
                let keys = (0..).map(|index| Value::Number(Number::Whole(index)));
                keys.zip(items).collect()
            }
            Value::Object(fields) => fields.into_iter().map(|(k, v)| (Value::Text(k), v)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
                return Err("`for` takes a list or an object".to_owned());
            }
        };
        let (mut list, mut object) = (Vec::new(), BTreeMap::new());
        for (key, value) in pairs {
            let outer = self.variables.len();
            self.variables.extend(each.key_var.iter().map(|name| (name.to_string(), key.clone())));
            self.variables.push((each.value_var.to_string(), value));
            let is_wanted = match &each.cond_expr {
                Some(condition) => truth_of(self.value(condition)?)?,
                None => true,
            };
            if is_wanted {
                let value = self.value(&each.value_expr)?;
                match &each.key_expr {
                    None => list.push(value),
                    Some(key) => {
                        add(&mut object, text_of(self.value(key)?)?, value, each.grouping)?
                    }
                }
            }
            self.variables.truncate(outer);
        }
        Ok(if each.key_expr.is_some() { Value::Object(object) } else { Value::List(list) })
    }
}

/// Adds what one round of `for` made to its object.
fn add(
    object: &mut BTreeMap<String, Value>,
    key: String,
    value: Value,
    is_grouped: bool,
) -> Result<(), String> {
    match object.get_mut(&key) {
        Some(Value::List(group)) if is_grouped => group.push(value),
        Some(_) => return Err(format!("`for` makes the key `{key}` twice")),
        None if is_grouped => drop(object.insert(key, Value::List(vec![value]))),
        None => drop(object.insert(key, value)),
    }
    Ok(())
}

fn ordered(left: Value, right: Value, is: fn(std::cmp::Ordering) -> bool) -> Result<Value, String> {
    Ok(Value::Bool(is(number_of(left)?.compare(number_of(right)?))))
}

fn number_of(value: Value) -> Result<Number, String> {
    match value {
        Value::Number(number) => Ok(number),
        Value::Text(text) => {
            Number::parse(&text).ok_or_else(|| format!("`{text}` is not a number"))
        }
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Object(_) => {
            Err("expected a number".to_owned())
        }
    }
}

fn truth_of(value: Value) -> Result<bool, String> {
    match value {
        Value::Bool(is) => Ok(is),
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        Value::Null | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Object(_) => {
            Err("expected true or false".to_owned())
        }
    }
}

fn text_of(value: Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(is) => Ok(is.to_string()),
        Value::Null | Value::List(_) | Value::Object(_) => Err("expected text".to_owned()),
    }
}

fn member(value: Value, name: &str) -> Result<Value, String> {
    match value {
        Value::Object(mut fields) => {
            fields.remove(name).ok_or_else(|| format!("there is no attribute `{name}`"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) => {
            Err(format!("only an object has an attribute `{name}`"))
        }
    }
}

fn item(value: Value, index: Option<usize>) -> Result<Value, String> {
    match (value, index) {
        (Value::List(mut items), Some(index)) if index < items.len() => {
            Ok(items.swap_remove(index))
        }
        (Value::List(_), _) => Err("there is no such item in the list".to_owned()),
        _ => Err("only a list has items".to_owned()),
    }
}

/// Counts the values and characters of a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(fields) => fields.iter().map(|(k, v)| k.len() + size(v)).sum::<usize>() + 1,
    }
}

/// Takes blanks away next to `${~` and `~}`, up to the end of the line.
fn stripped(text: &str, before: Strip, after: Strip) -> &str {
    let is_blank = |c: char| c.is_whitespace() && c != '\n';
    let mut text = text;
    if matches!(before, Strip::End | Strip::Both) {
        text = text.trim_start_matches(is_blank);
        text = text.strip_prefix('\n').unwrap_or(text);
    }
    if matches!(after, Strip::Start | Strip::Both) {
        text = text.trim_end_matches(is_blank);
        text = text.strip_suffix('\n').unwrap_or(text);
    }
    text
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(is) => is.into(),
        Value::Number(Number::Whole(whole)) => match (i64::try_from(whole), u64::try_from(whole)) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(whole)) => whole.into(),
            (Err(_), Err(_)) => (whole as f64).into(),
        },
        Value::Number(Number::Real(real)) if real.fract() == 0.0 && real.abs() < 1e15 => {
            (real as i64).into()
        }
        Value::Number(Number::Real(real)) => real.into(),
        Value::Text(text) => text.into(),
        Value::List(items) => items.into_iter().map(json).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, v)| (name, json(v))).collect(),
    }
}

/// Writes JSON as Go does, which keeps it from being taken for HTML. These characters stand in texts only.
fn escaped(json: &str) -> String {
    let json = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
