//! Pods as decisions read them, kept from one evaluation to the next, so that only those that have changed are read again.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::nodes::Volumes;
use decide::nodes::{GameServerUse, Pod, PodSpec};
use k8s_openapi::api::core::v1 as core;

use crate::lister::{Lister, Unreadable};

/// Pods of the last evaluation.
#[derive(Default)]
pub(super) struct KnownPods {
    by_uid: HashMap<Box<str>, KnownPod>,
    /// What pods ask for; those that ask for the same share it.
    specs: HashSet<Arc<PodSpec>>,
    /// Whether there is only one evaluation, so that no pod is kept.
    is_for_once: bool,
}

struct KnownPod {
    version: Box<str>,
    pod: Pod,
}

impl KnownPods {
    /// Returns what a single evaluation needs.
    pub(super) fn for_once() -> Self {
        Self { is_for_once: true, ..Self::default() }
    }

    /// Reads the pods one at a time, and returns them in the order of their names. How the game server of a pod is used is asked each time.
    pub(super) fn read(
        &mut self,
        world: &impl Lister<core::Pod>,
        storage: &Volumes<'_>,
        mut game_server: impl FnMut(&core::Pod) -> Option<GameServerUse>,
    ) -> Result<Vec<Pod>, Unreadable> {
        let mut before = std::mem::take(&mut self.by_uid);
        let mut pods = Vec::with_capacity(before.len());
        for object in world.list(None) {
            let object = object?;
            let object: &core::Pod = object.borrow();
            let identity = identity(object);
            let known = identity.and_then(|(uid, version)| {
                before.remove(uid).filter(|known| *known.version == *version)
            });
            let mut pod =
                known.map_or_else(|| self.shared(api::nodes::pod(object, storage)), |k| k.pod);
            pod.game_server = game_server(object);
            if let Some((uid, version)) = identity.filter(|_| !self.is_for_once) {
                let known = KnownPod { version: version.into(), pod: pod.clone() };
                self.by_uid.insert(uid.into(), known);
            }
            pods.push(pod);
        }
        drop(before);
        self.specs.retain(|spec| Arc::strong_count(spec) > 1);
        sort(&mut pods);
        Ok(pods)
    }

    /// Replaces what a pod asks for by that of another pod, if it is the same.
    pub(super) fn shared(&mut self, mut pod: Pod) -> Pod {
        match self.specs.get(&pod.spec) {
            Some(same) => pod.spec = Arc::clone(same),
            None => drop(self.specs.insert(Arc::clone(&pod.spec))),
        }
        pod
    }
}

/// Sorts pods by their names.
pub(super) fn sort(pods: &mut [Pod]) {
    pods.sort_by(|a, b| (&a.spec.namespace, &a.name).cmp(&(&b.spec.namespace, &b.name)));
}

/// Returns the uid and the version of a pod, unless what is read of it depends on other objects: on claims of volumes.
fn identity(pod: &core::Pod) -> Option<(&str, &str)> {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    if volumes.any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some()) {
        return None;
    }
    Some((pod.metadata.uid.as_deref()?, pod.metadata.resource_version.as_deref()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Listed(Vec<core::Pod>);

    impl Lister<core::Pod> for Listed {
        type Item = core::Pod;

        fn list(&self, _: Option<&str>) -> impl Iterator<Item = Result<core::Pod, Unreadable>> {
            self.0.iter().cloned().map(Ok)
        }
    }

    fn pod(name: &str, version: &str, node: &str, volume: Value) -> core::Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": version},
            "spec": {
                "containers": [], "nodeName": node,
                "volumes": [{"name": "v", "emptyDir": {}}, volume],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_read_again_when_its_version_or_what_it_refers_to_may_have_changed() {
        let (storage, mut known) = (Volumes::default(), KnownPods::default());
        let plain = json!({"name": "w", "configMap": {"name": "c"}});
        let claim = json!({"name": "w", "persistentVolumeClaim": {"claimName": "c"}});
        for (version, node, volume, wanted) in [
            ("1", "a", &plain, "a"),
            ("1", "not-read", &plain, "a"),
            ("2", "b", &plain, "b"),
            ("2", "c", &claim, "c"),
            ("2", "d", &claim, "d"),
        ] {
            let pods = Listed(vec![
                pod("p", version, node, volume.clone()),
                pod("o", "1", "x", plain.clone()),
            ]);
            let read = known.read(&pods, &storage, |_| None).unwrap();
            assert_eq!((read.len(), &*read[0].name, &*read[1].name), (2, "o", "p"));
            let place = format!("{:?}", read[1].scheduling);
            assert_eq!(place, format!("On({wanted:?})"), "{version} {volume}");
        }
        known.read(&Listed(Vec::new()), &storage, |_| None).unwrap();
        assert!(known.by_uid.is_empty() && known.specs.is_empty(), "what is gone is not kept");
    }
}
