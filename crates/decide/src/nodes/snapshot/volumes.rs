//! Persistent volumes: where they can be reached, how many a node attaches, who may share them.

use super::Like;
use super::classes::Classes;
use super::hash::{Distinct, hash};
use crate::nodes::{NodeTerm, Volume};

/// The distinct volumes, by number, and how many pods use each.
#[derive(Default)]
pub(super) struct Volumes {
    all: Vec<Volume>,
    users: Vec<u32>,
}

/// What is wrong with a volume on a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) enum Trouble {
    /// Another pod has it, and it is for one pod only.
    Taken(u32),
    /// The node attaches no more of its driver's volumes.
    Limit(u32),
    /// It cannot be reached from the node, or does not exist.
    Unreachable(u32),
}

impl Volumes {
    /// Numbers the volumes of all classes, and tells the classes their numbers.
    pub(super) fn of(classes: &mut Classes) -> Self {
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

    /// Takes back [`Self::attach`].
    pub(super) fn detach(&mut self, wanted: &[u32], attached: &mut Vec<(u32, u32)>) {
        for volume in wanted {
            self.users[*volume as usize] -= 1;
            let at = attached.iter().position(|(v, _)| v == volume).expect("it was attached");
            attached[at].1 -= 1;
            if attached[at].1 == 0 {
                attached.swap_remove(at);
            }
        }
    }

    /// Gives how many pods may use these volumes at the same time, apart from those that do.
    pub(super) fn exclusive_takes(&self, wanted: &[u32]) -> u32 {
        let exclusive = |v: &&u32| self.all[**v as usize].exclusive;
        let mut uses = wanted.iter().filter(exclusive).map(|v| self.users[*v as usize]);
        uses.next().map_or(u32::MAX, |first| u32::from(first == 0 && uses.all(|more| more == 0)))
    }

    /// Finds what is wrong with these volumes on a node with those attached.
    pub(super) fn trouble(
        &self,
        wanted: &[u32],
        node: &Like<'_>,
        attached: &[(u32, u32)],
    ) -> Option<Trouble> {
        let volume = |v: &u32| &self.all[*v as usize];
        let taken = |v: &&u32| volume(v).exclusive && self.users[**v as usize] > 0;
        if let Some(taken) = wanted.iter().find(taken) {
            return Some(Trouble::Taken(*taken));
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
                return Some(Trouble::Limit(*v));
            }
        }
        let reached = |terms: &[NodeTerm]| terms.iter().any(|term| reaches(term, node));
        let lost = |v: &&u32| {
            volume(v).missing || volume(v).reachable.as_ref().is_some_and(|terms| !reached(terms))
        };
        wanted.iter().find(lost).map(|v| Trouble::Unreachable(*v))
    }
}

fn reaches(term: &NodeTerm, node: &Like<'_>) -> bool {
    let nothing = term.labels.is_empty() && term.name.is_empty();
    !nothing
        && term.labels.iter().all(|r| r.matches(node.label(&r.key)))
        && term.name.iter().all(|r| r.matches(Some(node.name())))
}
