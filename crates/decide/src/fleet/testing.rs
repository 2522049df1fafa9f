//! Small worlds for the tests of this folder.

use super::{Fleet, FleetStatus, Mode, Scheduling, Template};

/// A fleet of `replicas` servers that are all there.
pub(super) fn fleet(replicas: i32) -> Fleet {
    Fleet {
        namespace: "default".into(),
        name: "f".into(),
        replicas,
        scheduling: Scheduling::Packed,
        priorities: Vec::new(),
        template: Template::default(),
        status: FleetStatus { replicas, ready: replicas, ..FleetStatus::default() },
        mode: Mode::Repaired,
    }
}
