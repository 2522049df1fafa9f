//! Cells of volumes, claims and storage classes.

use super::cells::Row;
use serde_json::{Value, json};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Builds the cells of a storage kind.
pub(super) fn cells(kind: &str, row: Row<'_>) -> Vec<Value> {
    match kind {
        "PersistentVolume" => volume(row),
        "PersistentVolumeClaim" => claim(row),
        "StorageClass" => class(row),
        "CSINode" => vec![row.name(), json!(row.count("/spec/drivers")), row.age()],
        "CSIDriver" => driver(row),
        "VolumeAttachment" => vec![
            row.name(),
            json!(row.text("/spec/attacher")),
            json!(row.text("/spec/source/persistentVolumeName")),
            json!(row.text("/spec/nodeName")),
            json!(row.boolean("/status/attached")),
            row.age(),
        ],
        _ => super::cluster::plain(row),
    }
}

fn phase(row: Row<'_>) -> Value {
    json!(if row.is_terminating() { "Terminating" } else { row.text("/status/phase") })
}

fn storage_class(row: Row<'_>) -> Value {
    let old = row.at("/metadata/annotations")[BETA_CLASS].as_str();
    json!(old.unwrap_or_else(|| row.text("/spec/storageClassName")))
}

/// Formats each access mode once, in the usual order.
fn modes(row: Row<'_>, path: &str) -> Value {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| row.list(path).iter().any(|given| given == mode);
    let shown: Vec<&str> =
        short.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short).collect();
    json!(shown.join(","))
}

fn volume(row: Row<'_>) -> Vec<Value> {
    let claim = match row.at("/spec/claimRef") {
        Value::Object(_) => {
            format!("{}/{}", row.text("/spec/claimRef/namespace"), row.text("/spec/claimRef/name"))
        }
        _ => String::new(),
    };
    vec![
        row.name(),
        json!(row.text_or("/spec/capacity/storage", "0")),
        modes(row, "/spec/accessModes"),
        json!(row.text("/spec/persistentVolumeReclaimPolicy")),
        phase(row),
        json!(claim),
        storage_class(row),
        json!(row.text_or("/spec/volumeAttributesClassName", "<unset>")),
        json!(row.text("/status/reason")),
        row.age(),
        json!(row.text_or("/spec/volumeMode", "<unset>")),
    ]
}

fn claim(row: Row<'_>) -> Vec<Value> {
    let is_bound = !row.text("/spec/volumeName").is_empty();
    let blank = || json!("");
    vec![
        row.name(),
        phase(row),
        json!(row.text("/spec/volumeName")),
        if is_bound { json!(row.text_or("/status/capacity/storage", "0")) } else { blank() },
        if is_bound { modes(row, "/status/accessModes") } else { blank() },
        storage_class(row),
        json!(row.text_or("/spec/volumeAttributesClassName", "<unset>")),
        row.age(),
        json!(row.text_or("/spec/volumeMode", "<unset>")),
    ]
}

fn class(row: Row<'_>) -> Vec<Value> {
    let annotations = row.at("/metadata/annotations");
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let is_default = marks.into_iter().any(|mark| annotations[mark] == "true");
    vec![
        json!(format!(
            "{}{}",
            row.text("/metadata/name"),
            if is_default { " (default)" } else { "" }
        )),
        json!(row.text("/provisioner")),
        json!(row.text_or("/reclaimPolicy", "Delete")),
        json!(row.text_or("/volumeBindingMode", "Immediate")),
        json!(row.boolean("/allowVolumeExpansion")),
        row.age(),
    ]
}

fn driver(row: Row<'_>) -> Vec<Value> {
    let join = |items: Vec<&str>| items.join(",");
    let audiences =
        row.list("/spec/tokenRequests").iter().map(|t| t["audience"].as_str().unwrap_or_default());
    let tokens = match row.at("/spec/tokenRequests") {
        Value::Array(_) => join(audiences.collect()),
        _ => "<unset>".into(),
    };
    let modes =
        join(row.list("/spec/volumeLifecycleModes").iter().filter_map(Value::as_str).collect());
    vec![
        row.name(),
        json!(row.at("/spec/attachRequired").as_bool().unwrap_or(true)),
        json!(row.boolean("/spec/podInfoOnMount")),
        json!(row.boolean("/spec/storageCapacity")),
        json!(tokens),
        json!(row.boolean("/spec/requiresRepublish")),
        json!(super::cells::or_none(modes)),
        row.age(),
    ]
}
