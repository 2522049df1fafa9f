//! Parses the query parameters of a request.

use std::time::Duration;

use super::address::unescape;
use crate::status::{ApiResult, Status};

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after the question mark.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (unescape(key, true), unescape(value, true)))
                .collect(),
        )
    }

    /// Sets a parameter that comes from the path instead of the query.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// Returns a parameter that is present and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// Returns every value of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Parses a boolean. A parameter without a value is true.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())?;
        Some(!matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }

    /// Parses an integer.
    pub(crate) fn number(&self, key: &str) -> ApiResult<Option<i64>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let bad = || {
            Status::bad_request(format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                apimachinery::quote::quote(text)
            ))
        };
        text.parse().map(Some).map_err(|_| bad())
    }

    /// Returns the timeout of the request.
    pub(crate) fn timeout(&self) -> ApiResult<Option<Duration>> {
        let seconds = self.number("timeoutSeconds")?;
        Ok(seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).map(Duration::from_secs))
    }

    /// Returns whether the request is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.all("dryRun").any(|value| value == "All")
    }

    /// Returns the field manager of a write: the one in the query, or the user agent up to its first slash.
    pub(crate) fn field_manager(&self, user_agent: &str) -> String {
        match self.get("fieldManager") {
            Some(manager) => manager.to_owned(),
            None => {
                let agent = user_agent.split('/').next().unwrap_or_default();
                let manager: String = agent.chars().take(128).filter(|c| !c.is_control()).collect();
                if manager.is_empty() { "unknown".to_owned() } else { manager }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_may_repeat() {
        let query = Query::parse("labelSelector=a%3Db&watch&dryRun=All&limit=5&x=");
        assert_eq!(query.get("labelSelector"), Some("a=b"));
        assert_eq!((query.flag("watch"), query.flag("follow")), (Some(true), None));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.get("x"), None);
        assert!(query.is_dry_run());
        assert_eq!(Query::parse("limit=a").number("limit").unwrap_err().code, 400);
    }

    #[test]
    fn a_client_that_names_no_manager_goes_by_its_own_name() {
        assert_eq!(Query::parse("").field_manager("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(Query::parse("fieldManager=me").field_manager("kubectl/v1.36"), "me");
        assert_eq!(Query::parse("").field_manager(""), "unknown");
    }
}
