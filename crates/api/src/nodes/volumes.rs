//! The volumes of a pod, and the nodes from which each is accessible.

use decide::nodes::{NodeTerm, Requirement, Volume};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;

use super::cluster::namespace_of;
use super::pod::Volumes;
use super::{requests, selectors};

/// The topology labels of a volume, in their older and newer spelling.
const PLACES: [[&str; 2]; 2] = [
    ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"],
    ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"],
];

/// The class that only hands out volumes that exist already.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Lists the persistent volumes of a pod.
pub(super) fn of_pod(
    pod: &core::Pod,
    spec: &core::PodSpec,
    storage: &Volumes<'_>,
) -> Box<[Volume]> {
    let namespace = namespace_of(&pod.metadata);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let claims = spec.volumes.iter().flatten().filter_map(|v| match &v.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        // A volume that lives as long as its pod has a claim named after both.
        None => v.ephemeral.as_ref().map(|_| format!("{name}-{}", v.name)),
    });
    claims.map(|claim| volume(namespace, &claim, storage)).collect()
}

fn volume(namespace: &str, name: &str, storage: &Volumes<'_>) -> Volume {
    let id: Box<str> = format!("{namespace}/{name}").into();
    let missing = Volume { id: id.clone(), missing: true, ..Volume::default() };
    let Some(claim) = storage.claims.get(&(namespace, name)) else { return missing };
    if claim.metadata.deletion_timestamp.is_some() {
        return missing;
    }
    let Some(spec) = claim.spec.as_ref() else { return missing };
    let exclusive = spec.access_modes.iter().flatten().any(|mode| mode == "ReadWriteOncePod");
    if let Some(bound) = spec.volume_name.as_deref().filter(|n| !n.is_empty()) {
        let Some(volume) = storage.volumes.get(bound) else { return missing };
        return Volume {
            id: bound.into(),
            driver: driver(volume).into(),
            reachable: reachable(volume),
            exclusive,
            missing: false,
        };
    }
    let class = spec.storage_class_name.as_deref().and_then(|name| storage.classes.get(name));
    match class {
        Some(class) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => {
            let unbound = Volume { id, exclusive, ..missing };
            to_be_bound(unbound, class, spec, storage)
        }
        // A claim that is bound before it is used, and is not: the scheduler waits.
        _ => missing,
    }
}

/// Returns where a volume could come to be.
fn to_be_bound(
    volume: Volume,
    class: &StorageClass,
    claim: &core::PersistentVolumeClaimSpec,
    storage: &Volumes<'_>,
) -> Volume {
    if class.provisioner != NO_PROVISIONER {
        let given = class.allowed_topologies.as_ref().filter(|t| !t.is_empty());
        let reachable = given.map(|t| t.iter().map(topology).collect());
        let driver = class.provisioner.as_str().into();
        return Volume { driver, reachable, missing: false, ..volume };
    }
    let asked = claim.resources.as_ref().and_then(|r| r.requests.as_ref()?.get("storage"));
    let asked = asked.map_or(0, |q| requests::amount("storage", q));
    let free = storage.volumes.values().filter(|v| {
        let Some(spec) = v.spec.as_ref() else { return false };
        let size = spec.capacity.as_ref().and_then(|c| c.get("storage"));
        spec.claim_ref.is_none()
            && spec.storage_class_name == class.metadata.name
            && size.map_or(0, |q| requests::amount("storage", q)) >= asked
    });
    let mut terms = Vec::new();
    let mut any = false;
    for candidate in free {
        match reachable(candidate) {
            None => return Volume { reachable: None, missing: false, ..volume },
            Some(more) => terms.extend(more),
        }
        any = true;
    }
    Volume { reachable: Some(terms.into()), missing: !any, ..volume }
}

/// Returns the nodes that can reach a volume: those of its node affinity, in the zones of its labels.
fn reachable(volume: &core::PersistentVolume) -> Option<Box<[NodeTerm]>> {
    let affinity = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
    let terms = affinity.and_then(|a| a.required.as_ref()).map(selectors::node_terms);
    let places = places(volume);
    if places.is_empty() {
        return terms;
    }
    let narrowed = |term: &NodeTerm| {
        let labels = term.labels.iter().chain(&places).cloned().collect();
        NodeTerm { labels, name: term.name.clone() }
    };
    // An empty term matches no node.
    let is_empty = |t: &NodeTerm| t.labels.is_empty() && t.name.is_empty();
    Some(match terms {
        Some(terms) => {
            terms.iter().map(|t| if is_empty(t) { t.clone() } else { narrowed(t) }).collect()
        }
        None => [NodeTerm { labels: places.into(), name: Box::default() }].into(),
    })
}

/// Reads the volume's own zone and region labels; several values are joined by two underscores.
fn places(volume: &core::PersistentVolume) -> Vec<Requirement> {
    let label = |key: &str| volume.metadata.labels.as_ref().and_then(|l| l.get(key));
    let mut out = Vec::new();
    for [older, newer] in PLACES {
        if let Some(value) = label(newer).or_else(|| label(older)) {
            out.push(selectors::is_among(newer, &value.split("__").collect::<Vec<_>>()));
        }
    }
    out
}

fn topology(term: &core::TopologySelectorTerm) -> NodeTerm {
    let one = |e: &core::TopologySelectorLabelRequirement| {
        selectors::is_among(&e.key, &e.values.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let labels = term.match_label_expressions.iter().flatten().map(one).collect();
    NodeTerm { labels, name: Box::default() }
}

/// Names the driver whose attach limit a volume counts for. Volumes in the older form are attached by drivers too.
fn driver(volume: &core::PersistentVolume) -> &str {
    let Some(spec) = volume.spec.as_ref() else { return "" };
    if let Some(csi) = &spec.csi {
        return &csi.driver;
    }
    let older = [
        (spec.aws_elastic_block_store.is_some(), "ebs.csi.aws.com"),
        (spec.gce_persistent_disk.is_some(), "pd.csi.storage.gke.io"),
        (spec.azure_disk.is_some(), "disk.csi.azure.com"),
        (spec.cinder.is_some(), "cinder.csi.openstack.org"),
        (spec.vsphere_volume.is_some(), "csi.vsphere.vmware.com"),
    ];
    older.iter().find(|(is_it, _)| *is_it).map_or("", |(_, driver)| driver)
}

#[cfg(test)]
mod tests {
    use super::super::ClusterObjects;
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    /// Returns the one volume of a pod with the claim `c`, in a world with these objects.
    fn volume_with(objects: &[Value]) -> Volume {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        }});
        let (claims, volumes, classes) = (
            objects_of(objects, "PersistentVolumeClaim"),
            objects_of(objects, "PersistentVolume"),
            objects_of(objects, "StorageClass"),
        );
        let all = ClusterObjects {
            claims: claims.iter().collect(),
            volumes: volumes.iter().collect(),
            classes: classes.iter().collect(),
            ..ClusterObjects::default()
        };
        let read_pod = super::super::pod(&serde_json::from_value(pod).unwrap(), &all.storage());
        read_pod.spec.volumes[0].clone()
    }

    fn objects_of<T: DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<T> {
        let of_kind = objects.iter().filter(|o| o["kind"] == kind);
        of_kind.map(|o| serde_json::from_value(o.clone()).unwrap()).collect()
    }

    fn claim(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
               "metadata": {"name": "c"}, "spec": spec})
    }

    fn class(fields: Value) -> Value {
        let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                               "metadata": {"name": "k"}, "provisioner": "d"});
        class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        class
    }

    fn zones(volume: &Volume) -> Vec<String> {
        let terms = volume.reachable.iter().flat_map(|terms| terms.iter());
        let values = terms.flat_map(|t| t.labels.iter()).flat_map(|r| r.values.iter());
        values.map(|v| v.to_string()).collect()
    }

    #[test]
    fn a_bound_volume_is_reached_where_its_labels_and_affinity_say() {
        let bound = claim(json!({"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]}));
        assert!(volume_with(std::slice::from_ref(&bound)).missing, "the volume is not there");
        let pv = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "z1__z2"}},
            "spec": {"csi": {"driver": "d", "volumeHandle": "h"}, "nodeAffinity": {"required": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "rack", "operator": "In", "values": ["r"]}]}]
            }}}
        });
        let found = volume_with(&[bound, pv]);
        assert_eq!((&*found.id, &*found.driver, found.exclusive), ("pv", "d", true));
        assert_eq!(zones(&found), ["r", "z1", "z2"]);
    }

    #[test]
    fn an_unbound_claim_depends_on_its_class() {
        let waits = json!({"volumeBindingMode": "WaitForFirstConsumer"});
        let unbound = claim(json!({"storageClassName": "k"}));
        assert!(volume_with(&[]).missing, "no claim");
        assert!(volume_with(std::slice::from_ref(&unbound)).missing, "no class");
        assert!(volume_with(&[unbound.clone(), class(json!({}))]).missing, "bound at once");
        let anywhere = volume_with(&[unbound.clone(), class(waits)]);
        assert!(!anywhere.missing && anywhere.reachable.is_none());
        assert_eq!(&*anywhere.id, "default/c");
        let narrow = json!({"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]});
        assert_eq!(zones(&volume_with(&[unbound.clone(), class(narrow)])), ["z1"]);
        let local = json!({"volumeBindingMode": "WaitForFirstConsumer",
                           "provisioner": "kubernetes.io/no-provisioner"});
        assert!(volume_with(&[unbound, class(local)]).missing, "no free volume");
    }
}
