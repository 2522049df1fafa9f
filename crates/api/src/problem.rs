//! What is wrong with an object, and where.

use std::fmt;

/// One thing wrong with an object: the path of the field, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is, as `spec.policy.buffer.bufferSize` or `spec.checks[1].name`; empty for the object as a whole.
    pub path: String,
    /// What was found and what was expected instead.
    pub message: String,
}

impl Problem {
    /// Describes a problem at a field.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
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
    problems.into_iter().map(|p| Problem { path: join(p.path), message: p.message }).collect()
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
}
