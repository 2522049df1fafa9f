//! Filters nodes by labels, taints and cordons: the part of a check that never changes.
//!
//! Nodes that differ only in labels that no selector uses have one shape, and the result for a shape is computed once.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::NodeSource;
use super::classes::Classes;
use super::hash::{Distinct, hash};
use crate::nodes::{
    Effect, HOSTNAME_LABEL, Labels, Node, NodeTerm, PodSpec, Requirement, Taint, Toleration,
};

/// The distinct selectors, tolerations and shapes, by index, and cached results.
#[derive(Default)]
pub(in crate::nodes) struct Filters {
    /// The labels that distinguish shapes, sorted.
    keys: Vec<Box<str>>,
    selectors: Vec<Selector>,
    tolerations: Vec<Box<[Toleration]>>,
    shapes: Vec<Shape>,
    numbers: BTreeMap<Shape, usize>,
}

/// The node selector and the required node affinity of pods.
struct Selector {
    labels: Labels,
    terms: Option<Box<[NodeTerm]>>,
    /// It selects nodes by name, so that shapes do not decide.
    asks_for_names: bool,
    verdicts: Verdicts,
}

/// The properties of a node that filters use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    values: Box<[Option<Box<str>>]>,
    taints: Box<[Taint]>,
    unschedulable: bool,
}

/// Results by shape, computed on first use.
#[derive(Default)]
struct Verdicts(Vec<Cell<Option<bool>>>);

impl Verdicts {
    fn get(&self, shape: usize, work_out: impl FnOnce() -> bool) -> bool {
        self.0[shape].get().unwrap_or_else(|| {
            let answer = work_out();
            self.0[shape].set(Some(answer));
            answer
        })
    }
}

impl Filters {
    /// Indexes the selectors and tolerations of all classes, and stores the indices in the classes.
    pub(super) fn new(classes: &mut Classes) -> Self {
        let (mut by_selector, mut by_tolerations) = (Distinct::default(), Distinct::default());
        let mut all = Self::default();
        for class in classes.iter_mut() {
            let spec = &class.spec;
            let (labels, terms) = (&spec.node_selector, &spec.node_affinity);
            let (number, is_new) = by_selector.number(hash(&(labels, terms)), |n| {
                all.selectors[n].labels == *labels && all.selectors[n].terms == *terms
            });
            class.selector = number;
            if is_new {
                all.selectors.push(Selector::from_spec(spec));
            }
            let (number, is_new) = by_tolerations
                .number(hash(&spec.tolerations), |n| all.tolerations[n] == spec.tolerations);
            class.tolerations = number;
            if is_new {
                all.tolerations.push(spec.tolerations.clone());
            }
        }
        let keys: BTreeSet<&str> = all
            .selectors
            .iter()
            .filter(|selector| !selector.asks_for_names)
            .flat_map(Selector::keys)
            .collect();
        let keys = keys.into_iter().map(Box::from).collect();
        all.keys = keys;
        all
    }

    /// Returns the index of a node's shape.
    pub(super) fn shape_of(&mut self, node: &Node) -> usize {
        let values = self.keys.iter().map(|key| node.labels.get(key).map(Box::from)).collect();
        let taints = node.taints.iter().filter(|taint| taint.keeps_away()).cloned().collect();
        let shape = Shape { values, taints, unschedulable: node.unschedulable };
        if let Some(number) = self.numbers.get(&shape) {
            return *number;
        }
        let number = self.shapes.len();
        self.numbers.insert(shape.clone(), number);
        self.shapes.push(shape);
        self.selectors.iter_mut().for_each(|s| s.verdicts.0.push(Cell::new(None)));
        number
    }

    /// Returns whether some selector uses node names, so that two nodes of one shape can differ.
    pub(super) fn ask_for_names(&self) -> bool {
        self.selectors.iter().any(|selector| selector.asks_for_names)
    }

    /// Returns whether a selector matches a node of this shape.
    pub(super) fn selects(&self, selector: usize, shape: usize, node: &NodeSource<'_>) -> bool {
        let selector = &self.selectors[selector];
        if selector.is_empty() {
            return true;
        }
        if selector.asks_for_names {
            return selector.matches(node.name(), |key| node.label(key));
        }
        selector.verdicts.get(shape, || {
            selector.matches("", |key| {
                let at = self.keys.binary_search_by(|k| (**k).cmp(key)).ok()?;
                self.shapes[shape].values[at].as_deref()
            })
        })
    }

    /// Returns whether a shape has neither a cordon nor taints.
    pub(super) fn is_open(&self, shape: usize) -> bool {
        !self.shapes[shape].unschedulable && self.shapes[shape].taints.is_empty()
    }

    /// Returns whether a cordon keeps out pods with these tolerations.
    pub(super) fn is_cordoned(&self, tolerations: usize, shape: usize) -> bool {
        self.shapes[shape].unschedulable && {
            let key = "node.kubernetes.io/unschedulable".into();
            let cordon = Taint { key, value: "".into(), effect: Effect::NoSchedule };
            !cordon.tolerated_by(&self.tolerations[tolerations])
        }
    }

    /// Returns the first taint that keeps out pods with these tolerations.
    pub(super) fn untolerated(&self, tolerations: usize, shape: usize) -> Option<&Taint> {
        let tolerations = &self.tolerations[tolerations];
        self.shapes[shape].taints.iter().find(|taint| !taint.tolerated_by(tolerations))
    }
}

impl Selector {
    fn from_spec(spec: &PodSpec) -> Self {
        let terms = spec.node_affinity.clone();
        let mut all = Self {
            labels: spec.node_selector.clone(),
            terms,
            asks_for_names: false,
            verdicts: Verdicts::default(),
        };
        let fields = all.terms.iter().flatten().any(|term| !term.name.is_empty());
        let by_hostname = all.keys().any(|key| key == HOSTNAME_LABEL);
        all.asks_for_names = fields || by_hostname;
        all
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let terms = self.terms.iter().flatten().flat_map(|term| &term.labels).map(|r| &*r.key);
        self.labels.iter().map(|(key, _)| key).chain(terms)
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    fn matches<'n>(&self, name: &str, label: impl Fn(&str) -> Option<&'n str>) -> bool {
        let holds = |r: &Requirement| r.matches(label(&r.key));
        self.labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| {
                terms.iter().any(|term| {
                    let nothing = term.labels.is_empty() && term.name.is_empty();
                    !nothing
                        && term.labels.iter().all(holds)
                        && term.name.iter().all(|r| r.matches(Some(name)))
                })
            })
    }
}
