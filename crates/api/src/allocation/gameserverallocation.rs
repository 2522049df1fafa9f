//! GameServerAllocation: a request for a game server, and the response. It is never stored.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CounterAction, GameServerAllocationStatus, GameServerSelector, ListAction, MetaPatch, dialect,
    validation,
};
use crate::agones::{Priority, Scheduling, fill_order};
use crate::schema::Schema;
use crate::{Admission, Kind, Problem, Scope, admit, unset};

/// Which game server to take, and what to do to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "allocation.agones.dev",
    version = "v1",
    kind = "GameServerAllocation",
    plural = "gameserverallocations",
    shortname = "gsa",
    namespaced,
    status = "GameServerAllocationStatus",
    doc = "A request for a game server, and the response.",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerAllocationSpec {
    /// Whether other clusters are tried.
    pub multi_cluster_setting: MultiClusterSetting,
    /// The required selector, where `selectors` is not given.
    pub required: GameServerSelector,
    /// Preferred selectors, where `selectors` is not given; earlier ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<GameServerSelector>,
    /// Which game servers will do; earlier ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<GameServerSelector>,
    /// Which of those that will do is tried first, by counters and lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<Priority>,
    /// Whether to fill nodes or to spread.
    pub scheduling: Scheduling,
    /// Labels and annotations to write onto the game server.
    pub metadata: MetaPatch,
    /// The actions on its counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, CounterAction>,
    /// The actions on its lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, ListAction>,
}

/// Whether other clusters are tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterSetting {
    /// True: GameServerAllocationPolicies determine the clusters to try.
    #[serde(skip_serializing_if = "crate::agones::is_zero")]
    pub enabled: bool,
    /// Which of the policies count; all, unless given.
    pub policy_selector: LabelSelector,
}

impl GameServerAllocation {
    /// Does what admission does, for one that did not come as JSON: checks it, and fills in what was left out.
    pub fn settled(mut self) -> Result<Self, Vec<Problem>> {
        let problems = validation::problems(&self.spec);
        admit::done(problems)?;
        fill(&mut self.spec);
        Ok(self)
    }
}

/// GameServerAllocation, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "allocation.agones.dev",
    version: "v1",
    kind: "GameServerAllocation",
    plural: "gameserverallocations",
    scope: Scope::Namespaced,
    crd: None,
    prepare,
    admit: admit_allocation,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&GameServerAllocation::crd()));

/// The status is the response; that of a request is ignored.
fn prepare(value: &mut Value, _: &Admission<'_>) {
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
    }
    unset::remove_empty(value, "/spec", &["scheduling", "priorities[].order"]);
}

fn admit_allocation(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    prepare(value, admission);
    let renames = dialect::allocation(value);
    renames.put_back(enter(value))
}

fn enter(value: &mut Value) -> Result<(), Vec<Problem>> {
    admit::tidy(value, None);
    if let Some(map) = value.as_object_mut() {
        map.entry("spec").or_insert_with(|| Value::Object(Default::default()));
    }
    let mut problems = value.get_mut("spec").map(validation::unknown_words).unwrap_or_default();
    match admit::read::<GameServerAllocation>(value, &SCHEMA) {
        Err(more) => problems.extend(more),
        Ok(allocation) => {
            let mut spec = allocation.spec;
            problems.extend(validation::problems(&spec));
            fill(&mut spec);
            value["spec"] = admit::json(&spec);
        }
    }
    admit::done(problems)?;
    admit::fit(value, &SCHEMA)
}

/// Fills in what was left out, and converts `required` and `preferred` into selectors.
fn fill(spec: &mut GameServerAllocationSpec) {
    fill_order(&mut spec.priorities);
    if spec.selectors.is_empty() {
        for selector in spec.preferred.iter_mut().chain([&mut spec.required]) {
            selector.game_server_state.get_or_insert_default();
        }
        spec.selectors = spec.preferred.clone();
        spec.selectors.push(spec.required.clone());
    }
    for selector in &mut spec.selectors {
        selector.game_server_state.get_or_insert_default();
    }
}
