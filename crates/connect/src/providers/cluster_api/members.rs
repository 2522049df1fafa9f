//! Which machines belong to which group, and whether a rollout replaces them.

use std::collections::BTreeMap;

use super::groups::Objects;
use super::objects::{MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, Machine, Scalable, id};
use super::settings::Settings;

/// The annotation with which Cluster API counts the revisions of a MachineDeployment.
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";

/// Which group each Machine belongs to.
pub(super) struct Members<'a> {
    machines: BTreeMap<String, Vec<&'a Machine>>,
    /// The MachineSets of each MachineDeployment.
    sets: BTreeMap<String, Vec<&'a Scalable>>,
}

impl<'a> Members<'a> {
    pub(super) fn new(objects: &'a Objects, settings: &Settings) -> Self {
        let mut sets: BTreeMap<String, Vec<&Scalable>> = BTreeMap::new();
        let mut group_of_set = BTreeMap::new();
        for set in objects.scalables.iter().filter(|object| object.kind == MACHINE_SET) {
            let group = match deployment(set, settings) {
                Some(name) => id(MACHINE_DEPLOYMENT, &set.metadata.namespace, name),
                None => set.id(),
            };
            sets.entry(group.clone()).or_default().push(set);
            group_of_set.insert((&*set.metadata.namespace, &*set.metadata.name), group);
        }
        let mut machines: BTreeMap<String, Vec<&Machine>> = BTreeMap::new();
        for machine in &objects.machines {
            let metadata = &machine.metadata;
            let of_pool = metadata.owner(MACHINE_POOL);
            let of_set = metadata.owner(MACHINE_SET);
            let group = match (of_pool, of_set) {
                (Some(pool), _) => Some(id(MACHINE_POOL, &metadata.namespace, pool)),
                (None, Some(set)) => group_of_set.get(&(&*metadata.namespace, set)).cloned(),
                (None, None) => None,
            };
            if let Some(group) = group {
                machines.entry(group).or_default().push(machine);
            }
        }
        Self { machines, sets }
    }

    /// Iterates over the machines of a group.
    pub(super) fn machines(&self, group: &str) -> impl Iterator<Item = &'a Machine> {
        self.machines.get(group).into_iter().flatten().copied()
    }

    /// Whether a MachineDeployment has machines of an older revision.
    pub(super) fn is_rolling_out(&self, object: &Scalable) -> bool {
        if object.kind != MACHINE_DEPLOYMENT {
            return false;
        }
        let sets = || self.sets.get(&object.id()).into_iter().flatten();
        let newest = sets().max_by_key(|set| age(set)).map(|set| &set.metadata.uid);
        let has_machines = |set: &&&Scalable| {
            set.spec.replicas.unwrap_or(0) > 0 || set.status.replicas.unwrap_or(0) > 0
        };
        sets().filter(|set| Some(&set.metadata.uid) != newest).any(|set| has_machines(&set))
    }
}

/// Returns what orders the MachineSets of a MachineDeployment by age.
fn age(set: &Scalable) -> (u64, &Option<String>) {
    let revision = set.metadata.annotation(REVISION).and_then(|text| text.parse().ok());
    (revision.unwrap_or(0), &set.metadata.creation_timestamp)
}

/// Returns the MachineDeployment that a MachineSet belongs to.
pub(super) fn deployment<'a>(object: &'a Scalable, settings: &Settings) -> Option<&'a str> {
    if object.kind != MACHINE_SET {
        return None;
    }
    let label = || object.metadata.label(&settings.key("deployment-name"));
    object.metadata.owner(MACHINE_DEPLOYMENT).or_else(label)
}
