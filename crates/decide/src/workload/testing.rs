//! Pods and sets for the tests of this module.

use jiff::Timestamp;

use super::rollout::{SetSize, Strategy};
use super::{IntOrPercent, PodPhase, PodView, deployment};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that runs on node `n` and became ready at second 100.
pub(super) fn pod(name: &str) -> PodView {
    PodView {
        name: name.into(),
        uid: name.into(),
        node: Some("n".into()),
        is_bound: true,
        phase: PodPhase::Running,
        ready_at: Some(at(100)),
        created_at: at(90),
        ..PodView::default()
    }
}

pub(super) fn rolling(replicas: i32, surge: i32, unavailable: i32) -> deployment::Spec {
    deployment::Spec {
        name: "web".to_owned(),
        generation: 1,
        replicas,
        strategy: Strategy::rolling(
            replicas,
            IntOrPercent::Int(surge),
            IntOrPercent::Int(unavailable),
        ),
        is_paused: false,
        progress_deadline_seconds: Some(600),
    }
}

/// A set whose pods all are available; its name is its creation time.
pub(super) fn set(name: &str, replicas: i32) -> SetSize {
    SetSize {
        name: name.to_owned(),
        created_at: at(name.bytes().map(i64::from).sum()),
        replicas,
        actual: replicas,
        ready: replicas,
        available: replicas,
        terminating: 0,
        desired: None,
        max: None,
    }
}
