//! The ConfigMap of Cluster Autoscaler's expander `priority`: patterns of group names by their priority. Groups without a priority are
//! chosen only if no other helps; if the ConfigMap cannot be read, or matches no group, all groups are equal.

use std::collections::BTreeMap;

use cluster::EventType;
use cluster::error::api_message;
use decide::nodes::{Expander, Settings};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use regex::Regex;

use super::NodeController;
use super::observe::Observation;
use super::record::SOURCE;

/// The key of the ConfigMap.
const KEY: &str = "priorities";

/// The patterns, the highest priority first.
#[derive(Debug, Default)]
struct Priorities(Vec<(i32, Vec<Regex>)>);

impl Priorities {
    /// Reads a mapping of priorities to lists of patterns.
    fn parse(text: &str) -> Result<Self, String> {
        let read: BTreeMap<i32, Vec<String>> =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        for (priority, patterns) in read.into_iter().rev() {
            let compiled: Result<Vec<Regex>, _> =
                patterns.iter().map(|pattern| Regex::new(pattern)).collect();
            all.push((priority, compiled.map_err(|error| error.to_string())?));
        }
        if all.is_empty() { Err("it names no priority".to_owned()) } else { Ok(Self(all)) }
    }

    /// Returns the highest priority with a pattern that occurs in the name of a group.
    fn of(&self, group: &str) -> Option<i32> {
        let matches = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(group));
        self.0.iter().find(|(_, patterns)| matches(patterns)).map(|(priority, _)| *priority)
    }
}

impl NodeController {
    /// Gives groups their priorities, if the expander `priority` reads them from a ConfigMap.
    pub(super) async fn prioritise(&mut self, observed: &mut Observation) {
        let Some(name) = self.values().and_then(|values| values.priority_map.clone()) else {
            return;
        };
        let Settings { expanders, .. } = &observed.settings;
        if !expanders.contains(&Expander::Priority) {
            return;
        }
        let namespace = self.cx.settings.cluster_autoscaler_namespace.clone();
        let api: Api<ConfigMap> = Api::namespaced(self.cx.client.clone(), &namespace);
        let read = match api.get_opt(&name).await {
            Ok(Some(map)) => match map.data.as_ref().and_then(|data| data.get(KEY)) {
                Some(text) => Priorities::parse(text),
                None => Err(format!("it has no key `{KEY}`")),
            },
            Ok(None) => Err("there is no such ConfigMap".to_owned()),
            Err(error) => Err(api_message(&error)),
        };
        let (priorities, problem) = match read {
            Ok(priorities) => (priorities, None),
            Err(problem) => (Priorities::default(), Some(("PriorityConfigMapInvalid", problem))),
        };
        let mut unmatched = Vec::new();
        for group in &mut observed.cluster.groups {
            group.priority = priorities.of(&group.name);
            if group.priority.is_none() {
                unmatched.push(group.name.to_string());
            }
        }
        let problem = problem.or_else(|| match unmatched.len() {
            0 => None,
            all if all == observed.cluster.groups.len() => {
                Some(("PriorityConfigMapNoGroupMatched", "no group matches a priority".to_owned()))
            }
            _ => {
                let text = format!("no priority matches {}", unmatched.join(", "));
                Some(("PriorityConfigMapNotMatchedGroup", text))
            }
        });
        self.report_priorities(&namespace, &name, problem);
    }

    /// Records a problem with the ConfigMap as an event of it, once.
    fn report_priorities(
        &mut self,
        namespace: &str,
        name: &str,
        problem: Option<(&'static str, String)>,
    ) {
        if self.memory.priorities == problem {
            return;
        }
        self.memory.priorities.clone_from(&problem);
        let Some((reason, text)) = problem else { return };
        tracing::warn!(namespace, name, reason, "{text}");
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        self.cx.events.record(&map, SOURCE, EventType::Warning, reason, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_with_a_matching_pattern_counts() {
        let text = "10:\n- .*spot.*\n- ^cheap\n50:\n- spot-large\n";
        let priorities = Priorities::parse(text).unwrap();
        for (group, priority) in [
            ("pool/spot-large-1", Some(50)),
            ("pool/spot-small", Some(10)),
            ("cheap", Some(10)),
            ("not-cheap", None),
        ] {
            assert_eq!(priorities.of(group), priority, "{group}");
        }
    }

    #[test]
    fn a_map_that_cannot_be_read_is_refused() {
        for text in ["", "{}", "high:\n- a\n", "1: a\n", "1:\n- '('\n"] {
            assert!(Priorities::parse(text).is_err(), "{text:?}");
        }
    }
}
