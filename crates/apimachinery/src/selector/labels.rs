//! Label selectors.

use super::InvalidSelector;
use super::lexer::{Token, tokens};
use super::syntax::{check_key, check_value};
use crate::quote::quote;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// How a requirement compares a label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// A label selector: it matches objects that meet all of its requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Returns a selector that matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns a selector that matches nothing, as an absent selector does.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Parses the text form, as in the `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut requirements = Parser { tokens: tokens(text), at: 0 }.requirements()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Parses a `LabelSelector` object: an absent one matches nothing, an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, InvalidSelector> {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::new(key.clone(), Operator::Equals, vec![value])?);
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            requirements.push(Requirement::from_expression(expression)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Converts a plain map of labels, as in a ReplicationController's selector.
    pub fn from_map(labels: &Map<String, Value>) -> Self {
        let requirements = labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::Equals,
                values: vec![value.as_str().unwrap_or_default().to_owned()],
            })
            .collect();
        Self { requirements, nothing: false }
    }

    /// Returns whether this matches every object.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns whether an object with these labels matches.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_with(|key| labels.and_then(|all| all.get(key)).and_then(Value::as_str))
    }

    /// Returns whether an object matches whose labels a function returns.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Returns whether an object matches by its `metadata.labels`.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(object["metadata"]["labels"].as_object())
    }
}

impl Requirement {
    /// Builds a requirement, or rejects values that the operator or the label syntax do not allow.
    pub fn new(
        key: String,
        operator: Operator,
        values: Vec<String>,
    ) -> Result<Self, InvalidSelector> {
        let mut problems = Vec::new();
        if let Err(problem) = check_key("key", &key) {
            problems.push(problem.0);
        }
        problems.extend(values_problem(operator, &values));
        for (index, value) in values.iter().enumerate() {
            if let Err(problem) = check_value(&format!("values[{index}][{key}]"), value) {
                problems.push(problem.0);
            }
        }
        match problems.len() {
            0 => Ok(Self { key, operator, values }),
            1 => Err(InvalidSelector(problems.remove(0))),
            _ => Err(InvalidSelector(format!("[{}]", problems.join(", ")))),
        }
    }

    fn from_expression(expression: &Value) -> Result<Self, InvalidSelector> {
        let operator = expression["operator"].as_str().unwrap_or_default();
        let operator = match operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                return Err(InvalidSelector(format!(
                    "{} is not a valid label selector operator",
                    quote(other)
                )));
            }
        };
        let key = expression["key"].as_str().unwrap_or_default().to_owned();
        let values = expression["values"].as_array().into_iter().flatten();
        Self::new(
            key,
            operator,
            values.map(|v| v.as_str().unwrap_or_default().to_owned()).collect(),
        )
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let has = |value: &str| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(has),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Greater => self.compare(label).is_some_and(|(label, bound)| label > bound),
            Operator::Less => self.compare(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

fn values_problem(operator: Operator, values: &[String]) -> Option<String> {
    let wrong = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            "for 'in', 'notin' operators, values set can't be empty"
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            "exact-match compatibility requires one single value"
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        Operator::Greater | Operator::Less
            if values.first().is_none_or(|v| v.parse::<i64>().is_err()) =>
        {
            let value = quote(values.first().map_or("", String::as_str));
            return Some(format!(
                "values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer"
            ));
        }
        Operator::In
        | Operator::NotIn
        | Operator::Equals
        | Operator::DoubleEquals
        | Operator::NotEquals
        | Operator::Exists
        | Operator::DoesNotExist
        | Operator::Greater
        | Operator::Less => return None,
    };
    Some(format!("values: Invalid value: {}: {wrong}", Value::from(values.to_vec())))
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Greater => write!(f, "{key}>{values}"),
            Operator::Less => write!(f, "{key}<{values}"),
        }
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Returns the next token without consuming it; `in` and `notin` are identifiers wherever an operator cannot be.
    fn peek(&self) -> (Token, &'a str) {
        match self.tokens.get(self.at).copied().unwrap_or((Token::End, "")) {
            (Token::In | Token::NotIn, literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, InvalidSelector> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::Identifier | Token::Not, _) => {}
                (Token::End, _) => return Ok(requirements),
                (_, literal) => {
                    return expected(literal, ", expected: !, identifier, or 'end of string'");
                }
            }
            let requirement = self.requirement();
            requirements.push(
                requirement
                    .map_err(|e| InvalidSelector(format!("unable to parse requirement: {e}")))?,
            );
            match self.next() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, literal) = self.peek();
                    if !matches!(token, Token::Identifier | Token::Not) {
                        return expected(literal, ", expected: identifier after ','");
                    }
                }
                (_, literal) => return expected(literal, ", expected: ',' or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, InvalidSelector> {
        let (mut token, mut key) = self.next();
        let absent = token == Token::Not;
        if absent {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return expected(key, ", expected: identifier");
        }
        check_key("<nil>", key)?;
        if absent {
            return Requirement::new(key.to_owned(), Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key.to_owned(), Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::Exists
            | Operator::DoesNotExist
            | Operator::Greater
            | Operator::Less => BTreeSet::from([self.exact()?]),
        };
        Requirement::new(key.to_owned(), operator, values.into_iter().map(str::to_owned).collect())
    }

    fn operator(&mut self) -> Result<Operator, InvalidSelector> {
        let (token, literal) = self.tokens.get(self.at).copied().unwrap_or((Token::End, ""));
        self.at += 1;
        match token {
            Token::In => Ok(Operator::In),
            Token::NotIn => Ok(Operator::NotIn),
            Token::Equals => Ok(Operator::Equals),
            Token::DoubleEquals => Ok(Operator::DoubleEquals),
            Token::NotEquals => Ok(Operator::NotEquals),
            Token::Greater => Ok(Operator::Greater),
            Token::Less => Ok(Operator::Less),
            Token::End
            | Token::Close
            | Token::Comma
            | Token::Not
            | Token::Identifier
            | Token::Open => expected(literal, ", expected: in, notin, =, ==, !=, gt, lt"),
        }
    }

    fn exact(&mut self) -> Result<&'a str, InvalidSelector> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            (Token::Identifier, literal) => Ok(literal),
            (_, literal) => expected(literal, ", expected: identifier"),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<&'a str>, InvalidSelector> {
        let (token, literal) = self.next();
        if token != Token::Open {
            return expected(literal, " expected: '('");
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, _) => self.members(),
            (Token::Close, _) => {
                self.at += 1;
                Ok(BTreeSet::from([""]))
            }
            (_, literal) => expected(literal, ", expected: ',', ')' or identifier"),
        }
    }

    /// Parses the members up to the closing parenthesis; a comma with nothing beside it is the empty value.
    fn members(&mut self) -> Result<BTreeSet<&'a str>, InvalidSelector> {
        let mut members = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, literal) => {
                    members.insert(literal);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, literal) => return expected(literal, ", expected: ',' or ')'"),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.peek().0;
                    if members.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        members.insert("");
                    }
                    if next == Token::Close {
                        break;
                    }
                }
                (_, literal) => return expected(literal, ", expected: ',', or identifier"),
            }
        }
        self.at += 1;
        Ok(members)
    }
}

fn expected<T>(found: &str, wanted: &str) -> Result<T, InvalidSelector> {
    Err(InvalidSelector(format!("found '{found}'{wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(labels.as_object())
    }

    #[test]
    fn requirements_compare_as_kubernetes_does() {
        let labels = json!({"app": "web", "n": "7", "empty": ""});
        for (selector, selected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web", true),
            ("app==web,n", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app notin (db)", true),
            ("other notin (db)", true),
            ("other in ()", false),
            ("empty in ()", true),
            ("empty=", true),
            ("n>6,n<8", true),
            ("n>7", false),
            ("app>1", false),
            ("app in (in,web)", true),
        ] {
            assert_eq!(selects(selector, &labels), selected, "{selector}");
        }
    }

    #[test]
    fn messages_about_invalid_selectors_match_kube_apiserver() {
        for (selector, message) in [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!x=y", "found '=', expected: ',' or 'end of string'"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().0, message, "{selector}");
        }
        let long = LabelSelector::parse("-a").unwrap_err().0;
        assert!(
            long.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must"
            ),
            "{long}"
        );
    }

    #[test]
    fn selector_objects_match_like_their_text() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]});
        let selector = LabelSelector::from_object(Some(&selector)).unwrap();
        assert_eq!(selector.to_string(), "app=web,!old,tier in (a,b)");
        assert!(selector.matches(json!({"app": "web", "tier": "a"}).as_object()));
        assert!(!selector.matches(json!({"app": "web", "tier": "a", "old": ""}).as_object()));
        assert!(!LabelSelector::from_object(None).unwrap().matches(None));
        assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().matches(None));
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let bad = LabelSelector::from_object(Some(&bad)).unwrap_err();
        assert_eq!(bad.0, "\"Near\" is not a valid label selector operator");
    }
}
