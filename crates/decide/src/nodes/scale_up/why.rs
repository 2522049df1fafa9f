//! Why no group helps a pod.

use std::sync::Arc;

use super::Planning;
use super::option::check_new;
use crate::nodes::packing::Profiles;
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, Refusal};

/// A waiting pod that nothing helps.
#[derive(Clone, Debug)]
pub struct Unschedulable {
    pub pod: PodId,
    /// What every group says, by name. Pods of one kind share it.
    pub why: Arc<[Why]>,
}

/// Why a group does not help.
#[derive(Clone, Debug)]
pub struct Why {
    /// The group's place in the cluster's groups.
    pub group: usize,
    pub refusal: Refusal,
}

impl Planning<'_, '_> {
    /// Lists the pods left without a place, by name, with what every group says.
    pub(super) fn unschedulable(&self) -> Vec<Unschedulable> {
        let models: Vec<usize> = self
            .turn
            .by_name
            .iter()
            .filter(|group| self.refusal(**group).is_none())
            .filter_map(|group| self.turn.moulds[*group].as_ref())
            .map(|mould| mould.model)
            .collect();
        let profiles = Profiles::of(&self.turn.snapshot, self.waiting.keys().copied(), &models);
        let mut all: Vec<Unschedulable> = Vec::new();
        for (class, pods) in &self.waiting {
            let why: Arc<[Why]> = self
                .turn
                .by_name
                .iter()
                .map(|group| Why { group: *group, refusal: self.why(*group, *class, &profiles) })
                .collect();
            all.extend(pods.iter().map(|pod| Unschedulable { pod: *pod, why: Arc::clone(&why) }));
        }
        let pods = &self.turn.cluster.pods;
        let name = |id: PodId| (&pods[id].spec.namespace, &pods[id].name);
        all.sort_by(|a, b| name(a.pod).cmp(&name(b.pod)));
        all
    }

    /// What kept the group out from the start comes first, then what keeps the pod off its nodes, then the limits that
    /// the plan itself has reached.
    fn why(&self, group: usize, class: ClassId, profiles: &Profiles) -> Refusal {
        if let Some(refusal) = &self.turn.standings[group].refusal {
            return refusal.clone();
        }
        let Some(mould) = &self.turn.moulds[group] else { return Refusal::NoTemplate };
        if self.added[group].is_empty()
            && let Some(refusal) = self.refusal(group)
        {
            return refusal;
        }
        let snapshot = &self.turn.snapshot;
        let check = check_new(snapshot, profiles, class, mould.model);
        check
            .map(|check| snapshot.refusal(class, mould.model, check))
            .or_else(|| self.refusal(group))
            .unwrap_or_else(|| Refusal::LimitReached("nodes".into()))
    }
}
