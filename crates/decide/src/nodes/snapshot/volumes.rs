//! Persistent volumes: accessibility, attach limits and exclusive use.

use super::NodeSource;
use super::classes::Classes;
use super::hash::{Distinct, hash};
use crate::nodes::{NodeTerm, Volume};

/// The distinct volumes, by index, and how many pods use each.
#[derive(Default)]
pub(super) struct Volumes {
    all: Vec<Volume>,
    users: Vec<u32>,
}

/// The reason why a volume cannot be used on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) enum VolumeProblem {
    /// It is exclusive and in use by another pod.
    Taken(u32),
    /// The node cannot attach more volumes of its driver.
    Limit(u32),
    /// It is not accessible from the node, or does not exist.
    Unreachable(u32),
}

impl Volumes {
    /// Indexes the volumes of all classes, and stores the indices in the classes.
    pub(super) fn new(classes: &mut Classes) -> Self {
        let (mut distinct, mut all) = (Distinct::default(), Vec::<Volume>::new());
        for class in classes.iter_mut() {
            let number = |volume: &Volume| {
                let (number, is_new) = distinct.number(hash(volume), |n| all[n] == *volume);
                if is_new {
                    all.push(volume.clone());
                }
                u32::try_from(number).expect("fewer than four billion volumes")
            };
            class.volumes = class.spec.volumes.iter().map(number).collect();
        }
        let users = vec![0; all.len()];
        Self { all, users }
    }

    pub(super) fn name(&self, volume: u32) -> &str {
        &self.all[volume as usize].id
    }

    pub(super) fn driver(&self, volume: u32) -> &str {
        &self.all[volume as usize].driver
    }

    /// Counts a pod that uses these volumes on a node with these attached.
    pub(super) fn attach(&mut self, wanted: &[u32], attached: &mut Vec<(u32, u32)>) {
        for volume in wanted {
            self.users[*volume as usize] += 1;
            match attached.iter_mut().find(|(v, _)| v == volume) {
                Some((_, pods)) => *pods += 1,
                None => attached.push((*volume, 1)),
            }
        }
    }

    /// Reverts [`Self::attach`].
    pub(super) fn detach(&mut self, wanted: &[u32], attached: &mut Vec<(u32, u32)>) {
        for volume in wanted {
            self.users[*volume as usize] -= 1;
            let at =
                attached.iter().position(|(v, _)| v == volume).expect("the volume was attached");
            attached[at].1 -= 1;
            if attached[at].1 == 0 {
                attached.swap_remove(at);
            }
        }
    }

    /// Returns how many more pods may use these volumes at the same time.
    pub(super) fn exclusive_takes(&self, wanted: &[u32]) -> u32 {
        let exclusive = |v: &&u32| self.all[**v as usize].exclusive;
        let mut uses = wanted.iter().filter(exclusive).map(|v| self.users[*v as usize]);
        uses.next().map_or(u32::MAX, |first| u32::from(first == 0 && uses.all(|more| more == 0)))
    }

    /// Returns why these volumes cannot be used on a node with those attached.
    pub(super) fn problem(
        &self,
        wanted: &[u32],
        node: &NodeSource<'_>,
        attached: &[(u32, u32)],
    ) -> Option<VolumeProblem> {
        let volume = |v: &u32| &self.all[*v as usize];
        let taken = |v: &&u32| volume(v).exclusive && self.users[**v as usize] > 0;
        if let Some(taken) = wanted.iter().find(taken) {
            return Some(VolumeProblem::Taken(*taken));
        }
        for v in wanted {
            let driver = &volume(v).driver;
            let limits = &node.node().volume_limits;
            let Some((_, limit)) = limits.iter().find(|(d, _)| d == driver) else { continue };
            let of_driver = |v: &u32| volume(v).driver == *driver;
            let is_new = |v: &&u32| of_driver(v) && attached.iter().all(|(a, _)| a != *v);
            let mut new: Vec<&u32> = wanted.iter().filter(is_new).collect();
            new.sort_unstable();
            new.dedup();
            let there = attached.iter().filter(|(v, _)| of_driver(v)).count();
            if !new.is_empty() && there + new.len() > *limit as usize {
                return Some(VolumeProblem::Limit(*v));
            }
        }
        let reached = |terms: &[NodeTerm]| terms.iter().any(|term| reaches(term, node));
        let lost = |v: &&u32| {
            volume(v).missing || volume(v).reachable.as_ref().is_some_and(|terms| !reached(terms))
        };
        wanted.iter().find(lost).map(|v| VolumeProblem::Unreachable(*v))
    }
}

fn reaches(term: &NodeTerm, node: &NodeSource<'_>) -> bool {
    let nothing = term.labels.is_empty() && term.name.is_empty();
    !nothing
        && term.labels.iter().all(|r| r.matches(node.label(&r.key)))
        && term.name.iter().all(|r| r.matches(Some(node.name())))
}
