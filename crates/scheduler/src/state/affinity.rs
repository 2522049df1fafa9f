//! The number of pods on each node that match a preferred affinity term.
//!
//! A term is counted over all pods when a pending pod first has it; from then on each pod that comes or goes changes the count. So a
//! batch costs the same however many pods there are.

use std::collections::{BTreeMap, BTreeSet};

use decide::nodes::{Labels, Pod, PodTerm, Scheduling};

/// The most terms that are counted although no pod of the batch has them.
const MOST_TERMS: usize = 64;

/// The labels of namespaces, by name.
pub(crate) type Namespaces = BTreeMap<Box<str>, Labels>;

/// The number of matching pods by term and node.
#[derive(Default)]
pub(crate) struct AffinityCounts {
    by_term: BTreeMap<PodTerm, BTreeMap<Box<str>, i64>>,
}

impl AffinityCounts {
    /// Counts a pod that came to a node.
    pub(crate) fn add(&mut self, pod: &Pod, node: &str, namespaces: &Namespaces) {
        for (term, nodes) in &mut self.by_term {
            if selects(term, pod, namespaces) {
                *nodes.entry(node.into()).or_default() += 1;
            }
        }
    }

    /// Uncounts a pod that left a node.
    pub(crate) fn remove(&mut self, pod: &Pod, node: &str, namespaces: &Namespaces) {
        for (term, nodes) in &mut self.by_term {
            if selects(term, pod, namespaces)
                && let Some(count) = nodes.get_mut(node)
            {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(node);
                }
            }
        }
    }

    /// Drops all counts: the labels of a namespace changed.
    pub(crate) fn clear(&mut self) {
        self.by_term.clear();
    }

    /// Counts `terms` over all pods, unless they are counted already.
    pub(crate) fn ensure<'p>(
        &mut self,
        terms: &BTreeSet<&PodTerm>,
        pods: impl Iterator<Item = &'p Pod>,
        namespaces: &Namespaces,
    ) {
        let missing: Vec<&PodTerm> =
            terms.iter().filter(|term| !self.by_term.contains_key(**term)).copied().collect();
        if missing.is_empty() {
            return;
        }
        if self.by_term.len() + missing.len() > MOST_TERMS {
            self.by_term.retain(|term, _| terms.contains(term));
        }
        let mut added = Self::default();
        added.by_term.extend(missing.into_iter().map(|term| (term.clone(), BTreeMap::new())));
        for pod in pods {
            if let Scheduling::On(node) = &pod.scheduling {
                added.add(pod, node, namespaces);
            }
        }
        self.by_term.append(&mut added.by_term);
    }

    /// Returns the nodes with matching pods, and how many.
    pub(crate) fn nodes(&self, term: &PodTerm) -> impl Iterator<Item = (&str, i64)> {
        let nodes = self.by_term.get(term);
        nodes.into_iter().flatten().map(|(node, count)| (&**node, *count))
    }
}

/// Whether a term selects a pod.
pub(crate) fn selects(term: &PodTerm, pod: &Pod, namespaces: &Namespaces) -> bool {
    let namespace = &pod.spec.namespace;
    let in_namespace = term.namespaces.contains(namespace)
        || term.namespace_selector.as_ref().is_some_and(|selector| {
            selector.is_empty()
                || namespaces.get(namespace).is_some_and(|labels| selector.matches(labels))
        });
    in_namespace && term.selector.matches(&pod.spec.labels)
}
