//! Validates volumes, claims and storage classes.

use serde_json::Value;

use super::meta::violations;
use super::numbers::{one_of, quantity, required};
use super::{Errors, names};
use crate::builtin::field::{CauseType, Path};
use crate::builtin::{given, items, text};

const ACCESS: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(spec: &Value, detail: &str, path: &Path, errors: &mut Errors) {
    let path = path.child("accessModes");
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        errors.push(path.required(detail));
    }
    for mode in modes.iter().filter_map(Value::as_str).filter(|m| !ACCESS.contains(m)) {
        errors.push(path.not_supported(mode, ACCESS));
    }
}

pub(super) fn volume(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    access_modes(spec, "", &path, errors);
    let capacity = spec["capacity"].as_object();
    if capacity.is_none_or(serde_json::Map::is_empty) {
        errors.push(path.child("capacity").required(""));
    }
    if spec["capacity"].get("storage").is_none() || capacity.is_some_and(|c| c.len() > 1) {
        let detail = r#"supported values: "storage""#;
        errors.push(path.child("capacity").with(
            CauseType::NotSupported,
            &spec["capacity"],
            detail,
        ));
    }
    one_of(spec, "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"], &path, errors);
    const PLAIN: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
        "volumeAttributesClassName",
    ];
    let sources = spec
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(k, _)| !PLAIN.contains(&k.as_str()))
        .count();
    if sources == 0 {
        errors.push(path.required("must specify a volume type"));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        violations(&path.child("storageClassName"), class, names::subdomain(class), errors);
    }
    one_of(spec, "volumeMode", &["Block", "Filesystem"], &path, errors);
}

/// Validates the spec of a claim.
pub(super) fn claim(spec: &Value, path: &Path, errors: &mut Errors) {
    access_modes(spec, "at least 1 access mode is required", path, errors);
    let path_to = path.child("resources").key("storage");
    match given(&spec["resources"]["requests"], "storage") {
        None => errors.push(path_to.required("")),
        Some(amount) if quantity(amount).is_some_and(|q| q.is_zero() || q.is_negative()) => {
            errors.push(path_to.invalid(amount, "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        violations(&path.child("storageClassName"), class, names::subdomain(class), errors);
    }
    one_of(spec, "volumeMode", &["Block", "Filesystem"], path, errors);
    super::label_selector(&spec["selector"], &path.child("selector"), errors);
}

pub(super) fn class(object: &Value, errors: &mut Errors) {
    let path = Path::default();
    required(object, "provisioner", &path, errors);
    one_of(object, "reclaimPolicy", &["Delete", "Retain"], &path, errors);
    one_of(object, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &path, errors);
}

pub(super) fn csi_node(object: &Value, errors: &mut Errors) {
    for (index, driver) in items(&object["spec"], "drivers").iter().enumerate() {
        let path = Path::new("spec.drivers").index(index);
        required(driver, "name", &path, errors);
        required(driver, "nodeID", &path, errors);
    }
}
