//! Matches pods against the selectors of affinity, anti-affinity and spread.
//!
//! A selector for `app=web` is looked up by that label, so that a thousand services, each with a selector for itself, are not
//! compared with each other.

use std::collections::BTreeMap;

use super::hash::{Distinct, hash};
use crate::nodes::{LabelSelector, Labels, Operator, PodSpec, PodTerm};

/// Matches pods by namespace and labels: all parts must match.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Matcher {
    parts: Box<[Part]>,
    /// Terminating pods do not match.
    not_terminating: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Part {
    namespaces: Box<[Box<str>]>,
    namespace_selector: Option<LabelSelector>,
    selector: LabelSelector,
}

impl Matcher {
    /// Matches the pods of all `terms` of a pod with this spec.
    pub(super) fn of_terms<'t>(
        spec: &PodSpec,
        terms: impl IntoIterator<Item = &'t PodTerm>,
    ) -> Self {
        let part = |term: &PodTerm| {
            let own = term.namespaces.is_empty() && term.namespace_selector.is_none();
            let namespaces =
                if own { [spec.namespace.clone()].into() } else { term.namespaces.clone() };
            let namespace_selector = term.namespace_selector.clone();
            Part { namespaces, namespace_selector, selector: term.selector.clone() }
        };
        let mut parts: Vec<Part> = terms.into_iter().map(part).collect();
        parts.sort();
        parts.dedup();
        Self { parts: parts.into(), not_terminating: false }
    }

    /// Matches the pods that a spread constraint counts: pods of the same namespace that are not terminating.
    pub(super) fn of_spread(spec: &PodSpec, selector: &LabelSelector) -> Self {
        // When counting, the scheduler treats an empty selector as one that matches nothing.
        let selector =
            if selector.is_empty() { LabelSelector::nothing() } else { selector.clone() };
        let namespaces = [spec.namespace.clone()].into();
        let part = Part { namespaces, namespace_selector: None, selector };
        Self { parts: [part].into(), not_terminating: true }
    }

    /// Returns whether a pod with this spec matches.
    pub(super) fn matches(&self, spec: &PodSpec, namespaces: &BTreeMap<Box<str>, Labels>) -> bool {
        !(self.not_terminating && spec.terminating)
            && self.parts.iter().all(|part| part.matches(spec, namespaces))
    }

    /// Returns labels of which a matching pod must have one, or `None` if there are none.
    fn anchors(&self) -> Option<(&str, &[Box<str>])> {
        let requirements = self.parts.iter().flat_map(|part| &part.selector.requirements);
        let mut asked = requirements.filter(|r| r.operator == Operator::In);
        asked.next().map(|r| (&*r.key, &*r.values))
    }
}

impl Part {
    fn matches(&self, spec: &PodSpec, namespaces: &BTreeMap<Box<str>, Labels>) -> bool {
        let named = self.namespaces.contains(&spec.namespace);
        let in_namespace = named
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                let labels = namespaces.get(&spec.namespace).cloned().unwrap_or_default();
                // The API server sets this label on every namespace.
                selector.matches(&labels.with("kubernetes.io/metadata.name", &spec.namespace))
            });
        in_namespace && self.selector.matches(&spec.labels)
    }
}

/// The distinct matchers, by index.
#[derive(Default)]
pub(super) struct Matchers {
    all: Vec<Matcher>,
    distinct: Distinct,
    by_label: BTreeMap<(Box<str>, Box<str>), Vec<usize>>,
    /// Those that cannot be looked up by label.
    unanchored: Vec<usize>,
}

impl Matchers {
    pub(super) fn number(&mut self, matcher: Matcher) -> usize {
        let (number, is_new) = self.distinct.number(hash(&matcher), |n| self.all[n] == matcher);
        if is_new {
            match matcher.anchors() {
                None => self.unanchored.push(number),
                Some((key, values)) => {
                    for value in values {
                        let label = (Box::from(key), value.clone());
                        self.by_label.entry(label).or_default().push(number);
                    }
                }
            }
            self.all.push(matcher);
        }
        number
    }

    /// Returns the matchers that match a pod with this spec.
    pub(super) fn meaning(
        &self,
        spec: &PodSpec,
        namespaces: &BTreeMap<Box<str>, Labels>,
    ) -> Vec<usize> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let by_label = spec.labels.iter().filter_map(|(key, value)| {
            // Only built when matchers exist; classes are few compared with pods.
            self.by_label.get(&(Box::from(key), Box::from(value)))
        });
        let mut found: Vec<usize> = by_label
            .flatten()
            .chain(&self.unanchored)
            .copied()
            .filter(|n| self.all[*n].matches(spec, namespaces))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn matches(
        &self,
        matcher: usize,
        spec: &PodSpec,
        namespaces: &BTreeMap<Box<str>, Labels>,
    ) -> bool {
        self.all[matcher].matches(spec, namespaces)
    }
}
