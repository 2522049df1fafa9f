//! A NodeGroup as decisions about nodes read it, with the annotations that describe nodes that do not exist yet.

use std::collections::BTreeMap;

use decide::nodes::{Group, GroupOptions, GroupStatus, Labels, ScaleUpUnderWay, Taint, Template};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::settings::count;
use super::{requests, selectors};
use crate::Problem;
use crate::plimsoll::node_group::{NodeGroup, NodeGroupSpec, Options};

/// The prefix of the tags in which cloud groups describe their nodes: `…/label/KEY`, `…/taint/KEY`, `…/resources/NAME`,
/// `…/autoscaling-options/NAME`.
const NODE_TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template/";
/// The prefix of Cluster API's annotations for the same: `…/cpu`, `…/memory`, `…/labels`, `…/taints` and so on.
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";

/// Reads a group. The spec takes precedence over annotations.
pub fn group(group: &NodeGroup) -> Group {
    let spec = &group.spec;
    let parsed = GroupAnnotations::read(group);
    let status = group.status.as_ref();
    let scale_up = status.and_then(|s| s.scale_up.as_ref());
    Group {
        name: group.metadata.name.as_deref().unwrap_or_default().into(),
        min: count(spec.min),
        max: count(spec.max),
        price: spec.price,
        priority: Some(spec.priority),
        all_or_nothing: spec.all_or_nothing,
        template: template(spec, &parsed),
        options: options(&spec.options, &parsed),
        is_rolling_out: status.is_some_and(|s| s.rolling_out),
        status: GroupStatus {
            target: status.and_then(|s| s.target).map(count),
            scale_up: scale_up.map(|s| ScaleUpUnderWay { at: s.at.0, increase: count(s.increase) }),
            backoff_until: status.and_then(|s| s.backoff_until.as_ref()).map(|t| t.0),
        },
    }
}

/// Returns which annotations that describe nodes cannot be read.
pub fn annotation_problems(group: &NodeGroup) -> Vec<Problem> {
    GroupAnnotations::read(group).problems
}

fn template(spec: &NodeGroupSpec, parsed: &GroupAnnotations) -> Option<Template> {
    if spec.template.is_none() && parsed.is_empty() {
        return None;
    }
    let given = spec.template.clone().unwrap_or_default();
    let mut capacity = parsed.resources.clone();
    capacity.extend(given.capacity);
    let mut allocatable = capacity.clone();
    // Without `allocatable`, the whole capacity is allocatable.
    if !given.allocatable.is_empty() {
        allocatable = given.allocatable;
    }
    let labels: Labels =
        parsed.labels.iter().chain(&given.labels).map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let own: Vec<Taint> = given.taints.iter().filter_map(selectors::taint).collect();
    let is_new = |t: &&Taint| !own.iter().any(|o| o.key == t.key && o.effect == t.effect);
    let taints = parsed.taints.iter().filter(is_new).chain(&own).cloned().collect();
    Some(Template {
        labels,
        taints,
        capacity: requests::all(Some(&capacity)),
        allocatable: requests::all(Some(&allocatable)),
    })
}

fn options(options: &Options, parsed: &GroupAnnotations) -> GroupOptions {
    let share = |name: &str| parsed.options.get(name).and_then(|v| v.parse().ok());
    let span = |name: &str| -> Option<SignedDuration> {
        parsed.options.get(name).and_then(|v| crate::duration::parse(v).ok())
    };
    GroupOptions {
        utilization_threshold: options
            .utilization_threshold
            .or_else(|| share("scaledownutilizationthreshold")),
        gpu_utilization_threshold: options
            .gpu_utilization_threshold
            .or_else(|| share("scaledowngpuutilizationthreshold")),
        unneeded_for: options.unneeded_for.map(|s| s.0).or_else(|| span("scaledownunneededtime")),
        unready_for: options.unready_for.map(|s| s.0).or_else(|| span("scaledownunreadytime")),
        max_provision_time: options
            .max_provision_time
            .map(|s| s.0)
            .or_else(|| span("maxnodeprovisiontime")),
        ignore_daemon_sets_utilization: options.ignore_daemon_sets_utilization.or_else(|| {
            parsed.options.get("ignoredaemonsetsutilization").and_then(|v| v.parse().ok())
        }),
    }
}

/// The annotations about the nodes of a group.
#[derive(Default)]
struct GroupAnnotations {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    resources: BTreeMap<String, Quantity>,
    options: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl GroupAnnotations {
    fn read(group: &NodeGroup) -> Self {
        let mut parsed = Self::default();
        let template = group.spec.template.as_ref().map(|t| &t.annotations);
        for (place, annotations) in [
            ("metadata.annotations", group.metadata.annotations.as_ref()),
            ("spec.template.annotations", template),
        ] {
            for (key, value) in annotations.into_iter().flatten() {
                if let Err(message) = parsed.take(key, value) {
                    parsed.problems.push(Problem::new(format!("{place}[{key}]"), message));
                }
            }
        }
        if let Err(message) = parsed.gpus(group) {
            parsed.problems.push(Problem::new("metadata.annotations", message));
        }
        parsed
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.taints.is_empty() && self.resources.is_empty()
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        if let Some((what, name)) =
            key.strip_prefix(NODE_TEMPLATE).and_then(|rest| rest.split_once('/'))
        {
            match what {
                "label" => drop(self.labels.insert(name.to_owned(), value.to_owned())),
                "taint" => self.taints.push(taint(name, value)?),
                "resources" => self.resource(name, value)?,
                "autoscaling-options" => self.option(name, value)?,
                _ => {}
            }
        }
        match key.strip_prefix(CAPACITY) {
            Some(name @ ("cpu" | "memory")) => self.resource(name, value),
            Some("ephemeral-disk") => self.resource("ephemeral-storage", value),
            Some("maxPods") => self.resource("pods", value),
            Some("labels") => {
                for pair in value.split(',').filter(|p| !p.is_empty()) {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    self.labels.insert(key.to_owned(), value.to_owned());
                }
                Ok(())
            }
            Some("taints") => {
                for text in value.split(',').filter(|t| !t.is_empty()) {
                    let (key, rest) = match text.split_once('=') {
                        Some(parts) => parts,
                        None => text.split_at(text.find(':').unwrap_or(text.len())),
                    };
                    self.taints.push(taint(key, rest)?);
                }
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A GPU is named by one annotation and counted by another.
    fn gpus(&mut self, group: &NodeGroup) -> Result<(), String> {
        let annotation = |name: &str| {
            group.metadata.annotations.as_ref().and_then(|a| a.get(&format!("{CAPACITY}{name}")))
        };
        match annotation("gpu-count") {
            Some(count) => {
                let name = annotation("gpu-type").map_or("nvidia.com/gpu", String::as_str);
                self.resource(name, count)
            }
            None => Ok(()),
        }
    }

    fn resource(&mut self, name: &str, value: &str) -> Result<(), String> {
        let amount = crate::quantity::Quantity::parse_with_hint(value)?;
        if amount.is_negative() {
            return Err("must not be negative".to_owned());
        }
        self.resources.insert(name.to_owned(), Quantity(value.to_owned()));
        Ok(())
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "scaledownutilizationthreshold" | "scaledowngpuutilizationthreshold" => {
                let share: f64 = value.parse().map_err(|_| format!("`{value}` is not a number"))?;
                if !(0.0..=1.0).contains(&share) {
                    return Err("must be between 0 and 1".to_owned());
                }
            }
            "scaledownunneededtime" | "scaledownunreadytime" | "maxnodeprovisiontime" => {
                crate::duration::parse(value)?;
            }
            "ignoredaemonsetsutilization" => {
                value.parse::<bool>().map_err(|_| format!("`{value}` is not true or false"))?;
            }
            _ => {}
        }
        self.options.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

/// Reads `value:effect`.
fn taint(key: &str, text: &str) -> Result<Taint, String> {
    let wrong = || format!("`{text}` is not a taint; write it like `value:NoSchedule`");
    let (value, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    let effect = selectors::effect(effect).ok_or_else(wrong)?;
    Ok(Taint { key: key.into(), value: value.into(), effect })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(annotations: Value, template: Value) -> NodeGroup {
        let mut value = json!({"metadata": {"name": "g", "annotations": annotations},
                               "spec": {"max": 5}});
        if !template.is_null() {
            value["spec"]["template"] = template;
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn annotations_describe_nodes_that_do_not_exist_yet() {
        let tags = json!({
            "k8s.io/cluster-autoscaler/node-template/label/disk": "ssd",
            "k8s.io/cluster-autoscaler/node-template/taint/gpu": "true:NoSchedule",
            "k8s.io/cluster-autoscaler/node-template/resources/cpu": "4",
            "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime": "2m",
        });
        let machines = json!({
            "capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
            "capacity.cluster-autoscaler.kubernetes.io/labels": "disk=ssd",
            "capacity.cluster-autoscaler.kubernetes.io/taints": "gpu=true:NoSchedule",
            "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "2",
        });
        for annotations in [tags, machines] {
            let found = group(&read(annotations.clone(), Value::Null)).template.unwrap();
            assert_eq!(found.labels.get("disk"), Some("ssd"), "{annotations}");
            assert_eq!(found.allocatable.cpu, 4000);
            assert_eq!((&*found.taints[0].key, &*found.taints[0].value), ("gpu", "true"));
        }
        assert!(group(&read(json!({}), Value::Null)).template.is_none());
    }

    #[test]
    fn the_spec_goes_before_annotations() {
        let annotations = json!({
            "k8s.io/cluster-autoscaler/node-template/label/disk": "ssd",
            "k8s.io/cluster-autoscaler/node-template/resources/cpu": "4",
            "k8s.io/cluster-autoscaler/node-template/resources/memory": "1Gi",
        });
        let template = json!({"labels": {"disk": "hdd"}, "capacity": {"cpu": "8"}});
        let found = group(&read(annotations, template)).template.unwrap();
        assert_eq!(found.labels.get("disk"), Some("hdd"));
        assert_eq!((found.capacity.cpu, found.capacity.memory), (8000, 1 << 30));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_named() {
        let annotations = json!({"k8s.io/cluster-autoscaler/node-template/taint/a": "b"});
        let found = annotation_problems(&read(annotations, Value::Null));
        assert_eq!(
            found[0].to_string(),
            "metadata.annotations[k8s.io/cluster-autoscaler/node-template/taint/a]: \
             `b` is not a taint; write it like `value:NoSchedule`"
        );
    }
}
