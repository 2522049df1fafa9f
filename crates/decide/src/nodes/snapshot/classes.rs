//! Groups pods into classes with equal scheduling constraints.

use std::collections::BTreeSet;
use std::ops::Index;
use std::sync::Arc;

use super::ClassId;

use super::hash::{Distinct, hash};
use super::terms::Terms;
use crate::nodes::{Cluster, PodId, PodSpec, Resources};

/// The classes of pods.
pub(in crate::nodes) struct Classes {
    all: Vec<Class>,
    of_pod: Vec<u32>,
    of_daemon: Vec<u32>,
    /// Resources beyond cpu, memory and ephemeral storage that some pod requests.
    others: Vec<Box<str>>,
}

/// One class of pods.
pub(in crate::nodes) struct Class {
    pub(in crate::nodes) spec: Arc<PodSpec>,
    /// Its requests, in the order of [`Classes::dense`].
    pub(in crate::nodes) request: Box<[i64]>,
    /// The indices of its node selector and affinity, and of its tolerations.
    pub(super) selector: usize,
    pub(super) tolerations: usize,
    pub(super) ports: Box<[u32]>,
    pub(super) volumes: Box<[u32]>,
    pub(in crate::nodes) terms: Terms,
}

impl Class {
    /// Returns whether it depends on other pods: it has affinity or spread constraints.
    pub(in crate::nodes) fn depends_on_others(&self) -> bool {
        !self.terms.affinity.is_empty() || !self.terms.spread.is_empty()
    }
}

impl Classes {
    /// Groups the pods and the daemons of a cluster.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut distinct = Distinct::default();
        let mut specs: Vec<Arc<PodSpec>> = Vec::new();
        let mut last: Option<(*const PodSpec, u32)> = None;
        let mut number = |spec: &Arc<PodSpec>| {
            if let Some((previous, class)) = last
                && previous == Arc::as_ptr(spec)
            {
                return class;
            }
            let (class, is_new) = distinct.number(hash(&**spec), |n| specs[n] == *spec);
            if is_new {
                specs.push(Arc::clone(spec));
            }
            let class = u32::try_from(class).expect("fewer than four billion classes");
            last = Some((Arc::as_ptr(spec), class));
            class
        };
        let of_pod = cluster.pods.iter().map(|pod| number(&pod.spec)).collect();
        let of_daemon = cluster.daemon_sets.iter().map(|set| number(&set.spec)).collect();
        let others: BTreeSet<Box<str>> = specs
            .iter()
            .flat_map(|spec| &spec.requests.other)
            .filter(|(_, amount)| *amount > 0)
            .map(|(name, _)| name.clone())
            .collect();
        let mut all =
            Self { all: Vec::new(), of_pod, of_daemon, others: others.into_iter().collect() };
        all.all = specs.into_iter().map(|spec| all.class(spec)).collect();
        all
    }

    fn class(&self, spec: Arc<PodSpec>) -> Class {
        Class {
            request: self.dense(&spec.requests).collect(),
            spec,
            selector: 0,
            tolerations: 0,
            ports: Box::default(),
            volumes: Box::default(),
            terms: Terms::default(),
        }
    }

    pub(in crate::nodes) fn of_pod(&self, pod: PodId) -> ClassId {
        self.of_pod[pod] as usize
    }

    /// Returns the class of a DaemonSet's pod, by the set's index in the cluster.
    pub(in crate::nodes) fn of_daemon(&self, set: usize) -> ClassId {
        self.of_daemon[set] as usize
    }

    pub(in crate::nodes) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of tracked resources.
    pub(in crate::nodes) fn width(&self) -> usize {
        3 + self.others.len()
    }

    /// Returns amounts in the tracked order: cpu, memory, ephemeral storage, then the others that some pod
    /// requests.
    pub(in crate::nodes) fn dense(&self, amounts: &Resources) -> impl Iterator<Item = i64> {
        [amounts.cpu, amounts.memory, amounts.ephemeral_storage]
            .into_iter()
            .chain(self.others.iter().map(|name| amounts.get(name)))
    }

    /// Returns the name of a tracked resource.
    pub(in crate::nodes) fn resource(&self, at: usize) -> &str {
        ["cpu", "memory", "ephemeral-storage"]
            .get(at)
            .copied()
            .unwrap_or_else(|| &self.others[at - 3])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Class> {
        self.all.iter_mut()
    }
}

impl Index<ClassId> for Classes {
    type Output = Class;

    fn index(&self, class: ClassId) -> &Class {
        &self.all[class]
    }
}
