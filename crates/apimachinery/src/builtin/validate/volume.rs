//! Validates a pod's volumes.

use std::collections::HashSet;

use serde_json::Value;

use super::meta::violations;
use super::numbers::required;
use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::text;

/// Validates volumes, and returns the names that can be mounted.
pub(super) fn volumes<'v>(
    volumes: &'v [Value],
    path: &Path,
    errors: &mut Errors,
) -> HashSet<&'v str> {
    let mut taken = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = errors.len();
        source(volume, &path, errors);
        // Errors in the name come first although the source is validated before it.
        let later = errors.split_off(before);
        let name = text(volume, "name");
        let mut good = false;
        if name.is_empty() {
            errors.push(path.child("name").required(""));
        } else {
            let found = names::label(name);
            good = found.is_empty();
            violations(&path.child("name"), name, found, errors);
        }
        if good && taken.contains(name) {
            errors.push(path.child("name").duplicate(&volume["name"]));
        }
        if good && later.is_empty() {
            taken.insert(name);
        }
        errors.extend(later);
    }
    taken
}

const ORDER: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Value, path: &Path, errors: &mut Errors) {
    let mut found = 0;
    for kind in ORDER {
        let Some(source) = volume.get(*kind).filter(|s| s.is_object()) else { continue };
        let path = path.child(kind);
        found += 1;
        if found > 1 {
            errors.push(path.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        match *kind {
            "hostPath" => required(source, "path", &path, errors),
            "secret" => required(source, "secretName", &path, errors),
            "configMap" => required(source, "name", &path, errors),
            "persistentVolumeClaim" => required(source, "claimName", &path, errors),
            "nfs" => {
                required(source, "server", &path, errors);
                required(source, "path", &path, errors);
            }
            "csi" => required(source, "driver", &path, errors),
            "ephemeral" => {
                let spec = &source["volumeClaimTemplate"]["spec"];
                super::storage::claim(
                    spec,
                    &path.child("volumeClaimTemplate").child("spec"),
                    errors,
                );
            }
            _ => {}
        }
    }
    if found == 0 {
        errors.push(path.required("must specify a volume type"));
    }
}
