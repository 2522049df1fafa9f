//! Selectors, tolerations and taints in the form that decisions compare.

use std::collections::BTreeMap;

use decide::nodes::{
    Effect, LabelSelector, Labels, NodeTerm, Operator, Requirement, Taint, Toleration,
};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

/// Copies labels.
pub(super) fn copy(labels: Option<&BTreeMap<String, String>>) -> Labels {
    labels.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str())).collect()
}

/// Reads a label selector; an absent one selects nothing, and so does one that cannot be read.
pub(super) fn labels(selector: Option<&meta::LabelSelector>) -> LabelSelector {
    selector.and_then(read).unwrap_or_else(LabelSelector::nothing)
}

fn read(selector: &meta::LabelSelector) -> Option<LabelSelector> {
    let equal =
        selector.match_labels.iter().flatten().map(|(k, v)| Some(is_among(k, &[v.as_str()])));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|e| requirement(&e.key, &e.operator, e.values.as_deref()));
    let mut requirements: Vec<Requirement> = equal.chain(expressions).collect::<Option<_>>()?;
    requirements.sort();
    Some(LabelSelector { requirements: requirements.into(), matches_nothing: false })
}

/// Adds what `matchLabelKeys` and `mismatchLabelKeys` require: the pod's own values, or other ones.
pub(super) fn with_keys(
    selector: LabelSelector,
    own: Option<&BTreeMap<String, String>>,
    same: Option<&[String]>,
    other: Option<&[String]>,
) -> LabelSelector {
    if selector.matches_nothing || (same.is_none() && other.is_none()) {
        return selector;
    }
    let mut requirements = selector.requirements.into_vec();
    let value = |key: &String| own.and_then(|labels| labels.get(key));
    for (keys, operator) in [(same, Operator::In), (other, Operator::NotIn)] {
        for key in keys.unwrap_or_default() {
            if let Some(value) = value(key) {
                requirements.push(Requirement { operator, ..is_among(key, &[value.as_str()]) });
            }
        }
    }
    requirements.sort();
    requirements.dedup();
    LabelSelector { requirements: requirements.into(), matches_nothing: false }
}

/// Requires one of several values.
pub(super) fn is_among(key: &str, values: &[&str]) -> Requirement {
    let values = values.iter().map(|v| (*v).into()).collect();
    Requirement { key: key.into(), operator: Operator::In, values }
}

fn requirement(key: &str, operator: &str, values: Option<&[String]>) -> Option<Requirement> {
    let operator = match operator {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    let values = values.unwrap_or_default().iter().map(|v| v.as_str().into()).collect();
    Some(Requirement { key: key.into(), operator, values })
}

/// Reads the terms of a node selector: one of them must hold.
pub(super) fn node_terms(selector: &core::NodeSelector) -> Box<[NodeTerm]> {
    selector.node_selector_terms.iter().map(node_term).collect()
}

/// Reads one term. What cannot be read matches no node, which is what an empty term means.
pub(super) fn node_term(term: &core::NodeSelectorTerm) -> NodeTerm {
    let read = |all: &Option<Vec<core::NodeSelectorRequirement>>| {
        let one = |e: &core::NodeSelectorRequirement| {
            requirement(&e.key, &e.operator, e.values.as_deref())
        };
        all.iter().flatten().map(one).collect::<Option<Box<[_]>>>()
    };
    let is_name = |r: &Requirement| &*r.key == "metadata.name";
    match (read(&term.match_expressions), read(&term.match_fields)) {
        (Some(labels), Some(name)) if name.iter().all(is_name) => NodeTerm { labels, name },
        _ => NodeTerm::default(),
    }
}

/// Reads an effect; empty and unknown ones are none.
pub(super) fn effect(text: &str) -> Option<Effect> {
    match text {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

/// Reads a taint; one with an unknown effect does nothing.
pub(super) fn taint(taint: &core::Taint) -> Option<Taint> {
    Some(Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: effect(&taint.effect)?,
    })
}

/// Reads a toleration; one that cannot be read tolerates nothing. `Lt` and `Gt` are off by default in Kubernetes.
pub(super) fn toleration(toleration: &core::Toleration) -> Option<Toleration> {
    let exists = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => false,
        Some("Exists") => true,
        Some(_) => return None,
    };
    let effect = match toleration.effect.as_deref() {
        None | Some("") => None,
        Some(text) => Some(effect(text)?),
    };
    Some(Toleration {
        key: toleration.key.as_deref().unwrap_or_default().into(),
        exists,
        value: toleration.value.as_deref().unwrap_or_default().into(),
        effect,
    })
}
