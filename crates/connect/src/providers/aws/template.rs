//! The shape of a new node of a group: by its instance type, its tags, and what EKS adds.

use std::collections::{BTreeMap, BTreeSet};

use api::plimsoll::node_group::Template;
use decide::nodes as decided;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::aws::autoscaling::AutoScalingGroup;
use crate::aws::ec2::{Image, InstanceRequirements, InstanceType};
use crate::aws::eks::{ManagedNodeGroup, ManagedTaint};
use crate::providers::described;

/// The tag with the name of EKS's managed node group.
pub(super) const MANAGED_GROUP_TAG: &str = "eks:nodegroup-name";
/// The prefix of the tags that describe nodes: `…/label/KEY`, `…/taint/KEY`, `…/resources/NAME`, `…/autoscaling-options/NAME`.
const NODE_TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template/";
/// How many pods a node takes where no tag says otherwise.
const DEFAULT_PODS: &str = "110";
/// The GPUs that pods can ask for, by their manufacturer.
const GPUS: [(&str, &str); 3] =
    [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("habana", "habana.ai/gaudi")];

/// What a new instance will be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Machine {
    /// Its type, where only one is possible.
    instance_type: Option<String>,
    /// Its architecture, in the words of Kubernetes.
    architecture: Option<&'static str>,
    capacity: BTreeMap<String, Quantity>,
}

/// What the tags of a group and its machine say about a new node.
pub(super) struct Described {
    pub(super) template: Option<decided::Template>,
    pub(super) options: decided::GroupOptions,
}

impl Machine {
    pub(super) fn of_type(name: &str, found: &InstanceType) -> Self {
        let mut capacity = cores_and_memory(found.v_cpu_info.count, found.memory_info.mib);
        for gpu in found.gpu_info.gpus.iter() {
            let name = gpu_resource(&gpu.manufacturer).map(str::to_owned);
            capacity.extend(name.map(|name| (name, Quantity(gpu.count.to_string()))));
        }
        let supported = &found.processor_info.supported_architectures;
        let architecture =
            ["x86_64", "arm64"].into_iter().find(|a| supported.iter().any(|s| s == a));
        Self {
            instance_type: Some(name.to_owned()),
            architecture: architecture.and_then(architecture_label),
            capacity,
        }
    }

    /// Describes the least that an instance has whose type is left to AWS.
    pub(super) fn of_requirements(required: &InstanceRequirements, image: Option<&Image>) -> Self {
        let mut capacity = cores_and_memory(required.v_cpu_count.min, required.memory_mib.min);
        if let [manufacturer] = &*required.accelerator_manufacturers
            && let Some(name) = gpu_resource(manufacturer)
            && required.accelerator_count.min > 0
        {
            let count = required.accelerator_count.min.to_string();
            capacity.insert(name.to_owned(), Quantity(count));
        }
        let architecture = image.and_then(|image| architecture_label(&image.architecture));
        Self { instance_type: None, architecture, capacity }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let labels = [
            ("kubernetes.io/arch", self.architecture),
            ("node.kubernetes.io/instance-type", self.instance_type.as_deref()),
        ];
        let given = labels.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

/// Reads the shape and the settings of a group. There is no shape where neither AWS nor the tags tell cores and memory.
pub(super) fn read(
    group: &AutoScalingGroup,
    region: &str,
    machine: Option<&Machine>,
    managed: Option<&ManagedNodeGroup>,
) -> Described {
    let tags = group.tags.iter().filter(|tag| tag.key.starts_with(NODE_TEMPLATE));
    let tags: BTreeMap<String, String> =
        tags.map(|tag| (tag.key.clone(), tag.value.clone())).collect();
    let tagged = |what: &str| -> BTreeSet<&str> {
        let prefix = format!("{NODE_TEMPLATE}{what}/");
        tags.keys().filter_map(|key| key.strip_prefix(&prefix)).collect()
    };
    // The fields of a NodeGroup take precedence over its annotations, and a tag over what AWS says.
    let mut capacity = machine.map(|machine| machine.capacity.clone()).unwrap_or_default();
    capacity.entry("pods".to_owned()).or_insert_with(|| Quantity(DEFAULT_PODS.to_owned()));
    let resources = tagged("resources");
    capacity.retain(|name, _| !resources.contains(name.as_str()));
    let mut labels = place_labels(group, region);
    labels.extend(machine.map(Machine::labels).unwrap_or_default());
    let tagged_labels = tagged("label");
    labels.retain(|key, _| !tagged_labels.contains(key.as_str()));
    labels.extend(managed.map(|managed| managed_labels(group, managed)).unwrap_or_default());
    let taints = managed.and_then(|managed| managed.taints.as_ref());
    let taints = taints.into_iter().flatten().map(taint).collect();
    let template = Template { labels, taints, capacity, ..Template::default() };
    let (template, options) = described::read(&described::node_group(template, tags));
    Described { template, options }
}

/// Returns the labels of a node in the first zone of a group. The region is the one that was asked: the name of a zone does not always
/// begin with that of its region and a letter, as in `us-west-2-lax-1a`.
fn place_labels(group: &AutoScalingGroup, region: &str) -> BTreeMap<String, String> {
    let mut labels = vec![("kubernetes.io/os", "linux"), ("topology.kubernetes.io/region", region)];
    if let Some(zone) = group.availability_zones.first() {
        labels.extend(
            ["topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"]
                .map(|key| (key, zone.as_str())),
        );
    }
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Returns the labels that EKS gives to the nodes of a managed group.
fn managed_labels(
    group: &AutoScalingGroup,
    managed: &ManagedNodeGroup,
) -> BTreeMap<String, String> {
    let mut labels = managed.labels.clone().unwrap_or_default();
    let capacity = managed.capacity_type.clone();
    labels.extend(capacity.map(|kind| ("eks.amazonaws.com/capacityType".to_owned(), kind)));
    let name = group.tags.iter().find(|tag| tag.key == MANAGED_GROUP_TAG);
    labels.extend(name.map(|tag| ("eks.amazonaws.com/nodegroup".to_owned(), tag.value.clone())));
    labels
}

fn taint(given: &ManagedTaint) -> Taint {
    let effect = match given.effect.as_str() {
        "NO_SCHEDULE" => "NoSchedule",
        "NO_EXECUTE" => "NoExecute",
        "PREFER_NO_SCHEDULE" => "PreferNoSchedule",
        other => other,
    };
    let (key, value) = (given.key.clone(), given.value.clone());
    Taint { key, value, effect: effect.to_owned(), time_added: None }
}

fn cores_and_memory(cores: u64, mib: u64) -> BTreeMap<String, Quantity> {
    [("cpu", cores.to_string()), ("memory", format!("{mib}Mi"))]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount)))
        .into()
}

fn gpu_resource(manufacturer: &str) -> Option<&'static str> {
    let found = GPUS.iter().find(|(known, _)| manufacturer.eq_ignore_ascii_case(known));
    found.map(|(_, resource)| *resource)
}

fn architecture_label(architecture: &str) -> Option<&'static str> {
    match architecture {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}
