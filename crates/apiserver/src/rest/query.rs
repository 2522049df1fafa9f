//! What does a request ask for besides its object?

use std::time::Duration;

use super::address::unescape;
use crate::status::{Answer, Status};

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what follows the question mark.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (unescape(key, true), unescape(value, true)))
                .collect(),
        )
    }

    /// Sets a parameter that the path, and not the query, gave.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.0.push((key.to_owned(), value.to_owned()));
    }

    /// Gives a parameter, if it is there and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    /// Gives every value of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Reads a yes or no. A parameter without a value means yes.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())?;
        Some(!matches!(value, "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }

    /// Reads a whole number.
    pub(crate) fn number(&self, key: &str) -> Answer<Option<i64>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let bad = || {
            Status::bad_request(format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                apimachinery::quote::quote(text)
            ))
        };
        text.parse().map(Some).map_err(|_| bad())
    }

    /// Gives how long the client wants to wait at most.
    pub(crate) fn timeout(&self) -> Answer<Option<Duration>> {
        let seconds = self.number("timeoutSeconds")?;
        Ok(seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).map(Duration::from_secs))
    }

    /// Tells whether nothing is to be changed.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.all("dryRun").any(|value| value == "All")
    }

    /// Gives who claims the fields of a write: what the client says, or the first part of its name for itself.
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
