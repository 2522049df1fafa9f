//! Finds the constructor of a source, target or provider by its name.

use kube::Client;
use process::{Clock, Random, Supervisor};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::services::ServiceResolver;
use crate::shared::Shared;

/// What sources, targets and providers share besides their own settings.
#[derive(Clone)]
pub struct Context {
    /// The cluster that the process runs on.
    pub client: Client,
    /// The source of time.
    pub clock: Clock,
    /// The source of random numbers.
    pub random: Random,
    /// Watches over the tasks of sources and providers.
    pub supervisor: Supervisor,
    /// Resolves the names of Services in addresses through the API instead of DNS.
    pub resolves_services: bool,
    /// What sources, targets and providers have open together.
    pub shared: Shared,
}

impl Context {
    /// Returns a context in which nothing is open, and names in addresses are resolved by DNS only.
    pub fn new(client: Client, clock: Clock, random: Random, supervisor: Supervisor) -> Self {
        let shared = Shared::default();
        Self { client, clock, random, supervisor, resolves_services: false, shared }
    }

    /// Returns the resolver of Service names; `None` if only DNS is used.
    pub(crate) fn services(&self) -> Option<ServiceResolver> {
        self.resolves_services.then(|| ServiceResolver::new(self.client.clone()))
    }
}

/// Why a source, target or provider cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is registered under the name.
    #[error("there is no {what} `{name}`; known are {known}")]
    UnknownName {
        /// Source, target or provider.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// All names that can be given.
        known: String,
    },
    /// The settings name none, or more than one.
    #[error("expected exactly one {what}, found {found}; known are {known}")]
    NotOne {
        /// Source, target or provider.
        what: &'static str,
        /// The names that were given.
        found: String,
        /// All names that can be given.
        known: String,
    },
    /// The settings cannot be used.
    #[error("{what} `{name}`: {problem}")]
    Settings {
        /// Source, target or provider.
        what: &'static str,
        /// Its name.
        name: String,
        /// The field, and what was expected.
        problem: String,
    },
}

/// The constructors of sources, targets or providers by name.
pub(crate) struct Registry<C: 'static> {
    /// Source, target or provider.
    pub(crate) what: &'static str,
    pub(crate) constructors: &'static [(&'static str, C)],
}

impl<C: Copy> Registry<C> {
    /// Returns the constructor with a name.
    pub(crate) fn find(&self, name: &str) -> Result<C, OpenError> {
        let found = self.constructors.iter().find(|(known, _)| *known == name);
        found.map(|(_, constructor)| *constructor).ok_or_else(|| OpenError::UnknownName {
            what: self.what,
            name: name.to_owned(),
            known: self.known(),
        })
    }

    /// Returns the only field of a block whose fields are names of this registry.
    pub(crate) fn only<'a>(
        &self,
        block: &'a Map<String, Value>,
    ) -> Result<(&'a str, &'a Value), OpenError> {
        let mut fields = block.iter();
        match (fields.next(), fields.next()) {
            (Some((name, settings)), None) => Ok((name, settings)),
            (_, _) => Err(OpenError::NotOne {
                what: self.what,
                found: match block.len() {
                    0 => "none".to_owned(),
                    _ => block.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
                },
                known: self.known(),
            }),
        }
    }

    /// Returns a function that adds the name to a problem with the settings.
    pub(crate) fn settings_error(&self, name: &str) -> impl FnOnce(String) -> OpenError {
        let (what, name) = (self.what, name.to_owned());
        move |problem| OpenError::Settings { what, name, problem }
    }

    fn known(&self) -> String {
        self.constructors.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// Reads the settings of one source, target or provider. An empty block stands for the defaults.
pub(crate) fn read_settings<T: DeserializeOwned>(settings: &Value) -> Result<T, String> {
    let settings = if settings.is_null() { json!({}) } else { settings.clone() };
    serde_json::from_value(settings).map_err(|err| err.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: Registry<u32> =
        Registry { what: "metric source", constructors: &[("http", 1), ("prometheus", 2)] };

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        assert_eq!(REGISTRY.find("prometheus"), Ok(2));
        assert_eq!(
            REGISTRY.find("promtheus").unwrap_err().to_string(),
            "there is no metric source `promtheus`; known are http, prometheus"
        );
    }

    #[test]
    fn a_block_names_exactly_one() {
        let only = |block: Value| {
            let block = block.as_object().unwrap().clone();
            REGISTRY.only(&block).map(|(name, _)| name.to_owned()).map_err(|err| err.to_string())
        };
        assert_eq!(only(json!({"http": {}})), Ok("http".to_owned()));
        for (block, found) in [(json!({}), "none"), (json!({"a": 1, "b": 2}), "a, b")] {
            let wanted = format!(
                "expected exactly one metric source, found {found}; known are http, prometheus"
            );
            assert_eq!(only(block), Err(wanted));
        }
    }
}
