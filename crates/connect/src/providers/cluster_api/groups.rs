//! The groups that the objects of Cluster API stand for, and the machines of each.

use std::collections::{BTreeMap, BTreeSet};

use super::instance::{instance, instance_id};
use super::members::{Members, deployment};
use super::objects::{
    Infrastructure, InfrastructureRef, MACHINE_POOL, Machine, Metadata, Scalable,
};
use super::settings::Settings;
use super::template::{self, Described};
use crate::providers::{Group, Instance, InstanceState};

/// The value of the mark for deletion, which distinguishes our marks from those of other clients.
pub(super) const OWN_MARK: &str = "plimsoll";
/// The size that a group without an annotation may have: its NodeGroup says.
const UNLIMITED: u32 = i32::MAX as u32;

/// Everything that groups are made from.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) scalables: Vec<Scalable>,
    pub(super) machines: Vec<Machine>,
    /// Infrastructure templates by group, kind, namespace and name.
    pub(super) infrastructure: BTreeMap<[String; 4], Infrastructure>,
    /// Labels of one node of a group, by the group's id.
    pub(super) node_labels: BTreeMap<String, BTreeMap<String, String>>,
}

/// A group, and what later changes of it depend on.
pub(super) struct Found {
    pub(super) group: Group,
    pub(super) known: KnownGroup,
    /// What is wrong with its descriptions of nodes.
    pub(super) problems: Vec<String>,
}

/// A group as of the last snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownGroup {
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) limits: SizeLimits,
    pub(super) replicas: u32,
    pub(super) is_rolling_out: bool,
    pub(super) machines: Vec<KnownMachine>,
    /// The providerIDs of a MachinePool that has no Machine for them.
    pub(super) pooled: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct KnownMachine {
    pub(super) instance: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) mark: Mark,
    pub(super) is_deleting: bool,
    pub(super) has_node: bool,
}

/// Whether a Machine is marked as the first to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Own,
    /// By a user, or by a Cluster Autoscaler.
    Foreign,
}

/// The sizes that the annotations of an object allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SizeLimits {
    pub(super) min: Option<u32>,
    pub(super) max: Option<u32>,
}

impl KnownGroup {
    /// Returns the number of machines that are not being deleted.
    pub(super) fn alive(&self) -> usize {
        self.machines.iter().filter(|machine| !machine.is_deleting).count() + self.pooled.len()
    }
}

impl Mark {
    pub(super) fn read(metadata: &Metadata, settings: &Settings) -> Self {
        match metadata.annotation(&settings.key("delete-machine")) {
            None => Self::None,
            Some(OWN_MARK) => Self::Own,
            Some(_) => Self::Foreign,
        }
    }
}

/// Returns the infrastructure templates that may describe nodes: their groups and kinds.
pub(super) fn infrastructure_kinds<'a>(
    objects: &'a Objects,
    settings: &Settings,
    named: &BTreeSet<String>,
) -> BTreeSet<(&'a str, &'a str)> {
    let wanted = objects.scalables.iter().filter(|it| is_wanted(it, settings, named));
    let references = wanted.filter_map(|it| it.spec.template.spec.infrastructure_ref.as_ref());
    let is_complete = |it: &&InfrastructureRef| !it.group().is_empty() && !it.kind.is_empty();
    references.filter(is_complete).map(|it| (it.group(), it.kind.as_str())).collect()
}

/// Returns a node of each group, by the group's id.
pub(super) fn nodes(
    objects: &Objects,
    settings: &Settings,
    named: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let members = Members::new(objects, settings);
    let wanted = objects.scalables.iter().filter(|it| is_wanted(it, settings, named));
    let node_of = |object: &Scalable| {
        let of_machine = members.machines(&object.id()).find_map(Machine::node);
        let of_pool = || object.status.node_refs.first().map(|node| node.name.as_str());
        Some((object.id(), of_machine.or_else(of_pool)?.to_owned()))
    };
    wanted.filter_map(node_of).collect()
}

/// Returns the groups: what NodeGroups name, and what is discovered.
pub(super) fn groups(
    objects: &Objects,
    settings: &Settings,
    named: &BTreeSet<String>,
) -> Vec<Found> {
    let members = Members::new(objects, settings);
    let wanted = objects.scalables.iter().filter(|it| is_wanted(it, settings, named));
    let found = wanted.filter_map(|object| {
        let is_named = named.contains(&object.id());
        group(object, objects, &members, settings, is_named)
    });
    found.collect()
}

/// Whether an object may be a group.
fn is_wanted(object: &Scalable, settings: &Settings, named: &BTreeSet<String>) -> bool {
    let is_free = || deployment(object, settings).is_none();
    named.contains(&object.id()) || settings.selects(object) && is_free()
}

/// Makes a group of an object; `None` if it is neither named nor meant to be scaled.
fn group(
    object: &Scalable,
    objects: &Objects,
    members: &Members<'_>,
    settings: &Settings,
    is_named: bool,
) -> Option<Found> {
    let limits = size_limits(&object.metadata, settings);
    let is_paused = object.metadata.annotation(&settings.key("paused")).is_some();
    let Described { template, options, problems } = describe(object, objects, settings);
    let is_scalable = match &limits {
        Ok(limits) => limits.max.is_some_and(|max| max > 0),
        Err(_) => true,
    };
    let can_grow = object.spec.replicas != Some(0) || template.is_some();
    if !(is_named || is_scalable && can_grow && !is_paused) {
        return None;
    }
    let replicas = object.spec.replicas.unwrap_or(0);
    let mut known = KnownGroup {
        kind: object.kind,
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone(),
        limits: limits.clone().unwrap_or_default(),
        replicas,
        is_rolling_out: members.is_rolling_out(object),
        ..KnownGroup::default()
    };
    // With sizes that cannot be read, the group stays as it is.
    let (min, max) = match &limits {
        Ok(limits) => (limits.min.unwrap_or(0), limits.max.unwrap_or(UNLIMITED)),
        Err(_) => (replicas, replicas),
    };
    let mut group = Group {
        id: object.id(),
        min,
        max,
        target: replicas,
        template,
        options,
        is_rolling_out: known.is_rolling_out,
        problem: problem(object, limits.err(), is_paused, settings),
        ..Group::default()
    };
    // The nodes of a paused group are unmanaged.
    if !is_paused {
        add_machines(object, members, settings, &mut known);
        group.instances = instances(&group.id, members, &known);
    }
    Some(Found { group, known, problems })
}

/// Returns why a group cannot be scaled.
fn problem(
    object: &Scalable,
    limits: Option<String>,
    is_paused: bool,
    settings: &Settings,
) -> Option<String> {
    if let Some(deployment) = deployment(object, settings) {
        return Some(format!("it belongs to MachineDeployment {deployment}; name that instead"));
    }
    if is_paused {
        return Some(format!("it is paused: remove the annotation {}", settings.key("paused")));
    }
    if object.spec.replicas.is_none() {
        return Some(
            "spec.replicas: required; set it to the present number of machines".to_owned(),
        );
    }
    limits
}

fn describe(object: &Scalable, objects: &Objects, settings: &Settings) -> Described {
    let infrastructure = object.spec.template.spec.infrastructure_ref.as_ref().and_then(|it| {
        let namespace = object.metadata.namespace.as_str();
        let key = [it.group(), &it.kind, namespace, &it.name].map(str::to_owned);
        objects.infrastructure.get(&key)
    });
    let node_labels = objects.node_labels.get(&object.id());
    template::describe(object, infrastructure, node_labels, settings)
}

/// Reads the sizes that the annotations allow.
fn size_limits(metadata: &Metadata, settings: &Settings) -> Result<SizeLimits, String> {
    let read = |name: &str| -> Result<Option<u32>, String> {
        let key = settings.key(&format!("cluster-api-autoscaler-node-group-{name}-size"));
        let Some(text) = metadata.annotation(&key) else { return Ok(None) };
        let size = text.parse::<i32>().ok().and_then(|size| u32::try_from(size).ok());
        let wrong = || format!("annotation {key}: `{text}` is not a whole number from 0");
        size.map(Some).ok_or_else(wrong)
    };
    let limits = SizeLimits { min: read("min")?, max: read("max")? };
    let (min, max) = (limits.min.unwrap_or(0), limits.max.unwrap_or(UNLIMITED));
    if max < min {
        let key = settings.key("cluster-api-autoscaler-node-group-max-size");
        return Err(format!("annotation {key}: {max} is less than the min size, which is {min}"));
    }
    Ok(limits)
}

fn add_machines(
    object: &Scalable,
    members: &Members<'_>,
    settings: &Settings,
    known: &mut KnownGroup,
) {
    for machine in members.machines(&object.id()) {
        known.machines.push(KnownMachine {
            instance: instance_id(machine),
            name: machine.metadata.name.clone(),
            uid: machine.metadata.uid.clone(),
            mark: Mark::read(&machine.metadata, settings),
            is_deleting: machine.is_deleting(),
            has_node: machine.node().is_some(),
        });
    }
    if object.kind == MACHINE_POOL {
        let has_machine = |id: &&String| known.machines.iter().any(|it| it.instance == **id);
        let pooled = object.spec.provider_id_list.iter().filter(|id| !has_machine(id));
        known.pooled = pooled.cloned().collect();
    }
}

fn instances(id: &str, members: &Members<'_>, known: &KnownGroup) -> Vec<Instance> {
    let pooled = known.pooled.iter().map(|id| Instance {
        id: id.clone(),
        state: InstanceState::Running,
        error: None,
    });
    members.machines(id).map(instance).chain(pooled).collect()
}

#[cfg(test)]
mod tests;
