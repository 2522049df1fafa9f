//! The subset of JSONPath that printer columns use.
//!
//! Supports members by name, items by index or all of them, and filters such as
//! `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Item(i64),
    All,
    Pick { path: Path, equal: bool, value: Value },
}

impl Path {
    /// Parses a path; `None` when it is invalid or uses more than columns may.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut rest =
            text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, left) = step(rest)?;
            steps.extend(step);
            rest = left;
        }
        Some(Self { steps })
    }

    /// Returns the first value at the path.
    pub(super) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(&self.steps, object)
    }
}

/// Parses one step off the front of a path.
fn step(text: &str) -> Option<(Option<Step>, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        let (name, rest) = name(rest);
        return match name.as_str() {
            "" if rest.is_empty() || rest.starts_with('[') => Some((None, rest)),
            "" => None,
            "*" => Some((Some(Step::All), rest)),
            _ => Some((Some(Step::Member(name)), rest)),
        };
    }
    if let Some(rest) = text.strip_prefix('[') {
        let end = closing(rest)?;
        return Some((Some(bracket(&rest[..end])?), &rest[end + 1..]));
    }
    // A path may begin with a name.
    let (name, rest) = name(text);
    if name.is_empty() { None } else { Some((Some(Step::Member(name)), rest)) }
}

/// Parses a name, in which a backslash escapes the next character.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[index..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Finds the closing bracket, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (left, equal, right) = match condition.split_once("==") {
            Some((left, right)) => (left, true, right),
            None => condition.split_once("!=").map(|(left, right)| (left, false, right))?,
        };
        let path = Path::parse(left.trim().strip_prefix('@')?)?;
        return Some(Step::Pick { path, equal, value: literal(right.trim())? });
    }
    match literal(text)? {
        Value::String(name) => Some(Step::Member(name)),
        Value::Number(index) => index.as_i64().map(Step::Item),
        _ => None,
    }
}

fn literal(text: &str) -> Option<Value> {
    if let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Some(Value::from(inner));
    }
    serde_json::from_str(text).ok()
}

fn find<'a>(steps: &[Step], at: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(at) };
    match step {
        Step::Member(name) => find(rest, at.get(name)?),
        Step::Item(index) => {
            let items = at.as_array()?;
            let index = if *index < 0 { index + i64::try_from(items.len()).ok()? } else { *index };
            find(rest, items.get(usize::try_from(index).ok()?)?)
        }
        Step::All => match at {
            Value::Array(items) => items.iter().find_map(|item| find(rest, item)),
            Value::Object(members) => members.values().find_map(|member| find(rest, member)),
            _ => None,
        },
        Step::Pick { path, equal, value } => {
            let is_picked =
                |item: &&Value| path.first(item).is_some_and(|found| (found == value) == *equal);
            at.as_array()?.iter().filter(is_picked).find_map(|item| find(rest, item))
        }
    }
}

/// Formats a value as a column of strings shows it.
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        // Lists and maps are formatted as JSON.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_members_items_and_filtered_items() {
        let object = json!({"spec": {"a.b": 1, "list": [1, 2, 3]}, "status": {"conditions": [
            {"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        for (path, found) in [
            (".spec.list[0]", Some(json!(1))),
            (".spec.list[-1]", Some(json!(3))),
            (".spec.list[*]", Some(json!(1))),
            (".spec.list[7]", None),
            (".spec['a.b']", Some(json!(1))),
            (".spec.a\\.b", Some(json!(1))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='A')].status", Some(json!("False"))),
            (".status.conditions[?(@.type!='A')].type", Some(json!("Ready"))),
            (".nothing.here", None),
            ("spec.list", Some(json!([1, 2, 3]))),
        ] {
            assert_eq!(Path::parse(path).unwrap().first(&object), found.as_ref(), "{path}");
        }
        for bad in [".spec[", ".spec[?(x)]", ".a..b", ".spec[x]"] {
            assert_eq!(Path::parse(bad), None, "{bad}");
        }
    }
}
