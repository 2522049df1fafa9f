//! Problems of an object, with their paths, as Kubernetes reports them.

use std::fmt;

use serde_json::{Value, json};

use crate::Kind;

/// One thing wrong with an object: the path of the field, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, as `spec.policy.buffer.bufferSize` or `spec.checks[1].name`; empty for the object as a whole.
    pub path: String,
    /// The value that was found, and the expected one.
    pub message: String,
    /// Which kind of mistake it is, for programs.
    pub cause: CauseType,
}

/// The types of causes that Kubernetes lists when it rejects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseType {
    /// The referenced object does not exist.
    NotFound,
    /// The field has to be set.
    Required,
    /// The value is there already, and must be unique.
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is none of those that there are.
    NotSupported,
    /// The field may not be set here.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map has too many entries.
    TooMany,
    /// The value has the wrong JSON type.
    TypeInvalid,
}

impl CauseType {
    /// Returns the words that a message of this kind begins with.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    /// Returns the name that `Status.details.causes[].reason` has for it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

impl Problem {
    /// Describes a value that is malformed or out of bounds.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(CauseType::Invalid, path, message)
    }

    /// Describes a mistake of the given kind.
    pub fn of(cause: CauseType, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), cause }
    }

    /// Describes a field that has to be set.
    pub fn required(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(CauseType::Required, path, message)
    }

    /// Describes a field that may not be set.
    pub fn forbidden(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of(CauseType::Forbidden, path, message)
    }

    /// Describes a value that is none of `choices`.
    pub fn not_supported(path: impl Into<String>, found: &str, choices: &[&str]) -> Self {
        let message = format!("expected one of {}, found {found:?}", choices.join(", "));
        Self::of(CauseType::NotSupported, path, message)
    }

    /// Returns the sentence without the field, as the causes of a refusal have it.
    fn sentence(&self) -> String {
        format!("{}: {}", self.cause.words(), self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Moves problems found in a part of an object to where that part is.
pub fn prefixed(prefix: &str, problems: Vec<Problem>) -> Vec<Problem> {
    let join = |path: String| match path.chars().next() {
        None => prefix.to_owned(),
        Some('[') => format!("{prefix}{path}"),
        Some(_) => format!("{prefix}.{path}"),
    };
    problems.into_iter().map(|p| Problem { path: join(p.path), ..p }).collect()
}

/// Writes the `Status` by which the API refuses an object of a kind, with one cause for each problem. The name is empty where the
/// object has none, or none yet.
pub fn refusal(kind: &Kind, name: &str, problems: &[Problem]) -> Value {
    let cause =
        |p: &Problem| json!({"reason": p.cause.reason(), "message": p.sentence(), "field": p.path});
    let mut details = json!({
        "group": kind.group, "kind": kind.kind, "causes": problems.iter().map(cause).collect::<Vec<_>>(),
    });
    if !name.is_empty() {
        details["name"] = name.into();
    }
    let lines: Vec<_> = problems.iter().map(|p| format!("{}: {}", p.path, p.sentence())).collect();
    let summary = match lines.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": 422, "reason": "Invalid",
        "message": format!("{}.{} \"{name}\" is invalid: {summary}", kind.kind, kind.group),
        "details": details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_joins_names_indices_and_nothing() {
        let parts = ["name", "[1].name", ""].map(|path| Problem::new(path, "m")).to_vec();
        let paths: Vec<_> = prefixed("spec.checks", parts).into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["spec.checks.name", "spec.checks[1].name", "spec.checks"]);
    }

    #[test]
    fn a_refusal_has_one_cause_for_each_problem_with_its_type() {
        let kind = crate::find(None, "Fleet").unwrap();
        let problems = [Problem::required("spec.a", "must be given"), Problem::new("spec.b", "no")];
        let status = refusal(kind, "", &problems);
        assert_eq!(
            status["message"],
            "Fleet.agones.dev \"\" is invalid: [spec.a: Required value: must be given, spec.b: Invalid value: no]"
        );
        let reasons: Vec<_> =
            status["details"]["causes"].as_array().unwrap().iter().map(|c| &c["reason"]).collect();
        assert_eq!(reasons, ["FieldValueRequired", "FieldValueInvalid"]);
        assert_eq!(status["details"].get("name"), None);
    }
}
