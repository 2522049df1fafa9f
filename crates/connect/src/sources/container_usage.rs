//! Queries about what containers use, which the sources `docker`, `kubernetes` and `rancher` have in common: `cpu` or `memory`, and what
//! the use is compared with.

use api::plimsoll::auto_scale_policy::RelativeTo;
use api::plimsoll::scaling_policy::TargetSpec;

use super::{Answer, Query, QueryError};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Cpu,
    Memory,
}

impl Metric {
    /// Returns its name, which is also that of the resource in Kubernetes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// A query about what containers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsageQuery {
    pub(super) metric: Metric,
    /// What the use is compared with; `None`: what the source itself compares it with.
    pub(super) relative_to: Option<RelativeTo>,
}

impl UsageQuery {
    /// Reads the text of a query: `cpu` or `memory`, and optionally `/limit` or `/request`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (metric, relative_to) = match text.split_once('/') {
            None => (text, None),
            Some((metric, "limit")) => (metric, Some(RelativeTo::Limit)),
            Some((metric, "request")) => (metric, Some(RelativeTo::Request)),
            Some(_) => return None,
        };
        let metric = [Metric::Cpu, Metric::Memory].into_iter().find(|m| m.name() == metric)?;
        Some(Self { metric, relative_to })
    }

    /// Reads a query to a source about one service, and finds the service in the target with `service`.
    pub(super) fn of_service<'a, T>(
        query: &'a Query,
        source: &str,
        service: impl FnOnce(&'a TargetSpec) -> Option<&'a T>,
    ) -> Result<(Self, &'a T), QueryError> {
        query.expect_present(source)?;
        let usage = Self::parse(&query.text).ok_or_else(|| {
            QueryError::Unsupported(format!(
                "`{}` is not a query of the source {source}; write `cpu` or `memory`, or compare it with `/limit` or `/request`",
                query.text
            ))
        })?;
        let found = query.target.as_ref().and_then(|target| service(&target.spec));
        let found = found.ok_or_else(|| {
            let problem = format!("the source {source} measures a target of the type {source}");
            QueryError::Unsupported(problem)
        })?;
        Ok((usage, found))
    }
}

/// Answers with the mean over the containers that could be measured.
pub(super) fn mean(query: &Query, values: &[f64]) -> Answer {
    match values.len() {
        0 => Answer::NoData,
        count => Answer::now(query, values.iter().sum::<f64>() / count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_metric_and_perhaps_what_it_is_compared_with() {
        let usage = |metric, relative_to| Some(UsageQuery { metric, relative_to });
        for (text, wanted) in [
            ("cpu", usage(Metric::Cpu, None)),
            ("memory", usage(Metric::Memory, None)),
            ("cpu/limit", usage(Metric::Cpu, Some(RelativeTo::Limit))),
            ("memory/request", usage(Metric::Memory, Some(RelativeTo::Request))),
            ("disk", None),
            ("cpu/", None),
            ("cpu/limit/request", None),
            ("", None),
        ] {
            assert_eq!(UsageQuery::parse(text), wanted, "{text}");
        }
    }
}
