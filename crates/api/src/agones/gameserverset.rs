//! GameServerSet: the game servers of a fleet that were made from one template.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AggregateCount, AllocationOverflow, GameServerTemplate, PlayerAggregate, Priority, Scheduling,
    dialect, gameserver, priority,
};
use crate::schema::{Schema, words};
use crate::{Admission, Kind, Problem, Scope, admit, labels, unset};

/// How many game servers of one template there should be.
#[expect(clippy::duplicated_attributes, reason = "columns share their types")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agones.dev",
    version = "v1",
    kind = "GameServerSet",
    plural = "gameserversets",
    shortname = "gss",
    shortname = "gsset",
    namespaced,
    status = "GameServerSetStatus",
    doc = "The game servers of a fleet that were made from one template.",
    derive = "Default",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "Scheduling", type_ = "string", json_path = ".spec.scheduling"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Allocated", type_ = "integer", json_path = ".status.allocatedReplicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase")]
pub struct GameServerSetSpec {
    /// How many game servers there should be.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Labels and annotations for Allocated game servers beyond `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_overflow: Option<AllocationOverflow>,
    /// How game servers are spread over nodes, and with it which go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Which game servers go first when there are too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<Priority>,
    /// The template of the game servers. Immutable.
    pub template: GameServerTemplate,
}

/// How many game servers of one template there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerSetStatus {
    /// All that are not going away.
    pub replicas: i32,
    /// Those in the state Ready.
    pub ready_replicas: i32,
    /// Those in the state Reserved.
    pub reserved_replicas: i32,
    /// Those in the state Allocated.
    pub allocated_replicas: i32,
    /// Those that are going away.
    pub shutdown_replicas: i32,
    /// Player tracking, which lists have replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub players: Option<PlayerAggregate>,
    /// The counters, summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, AggregateCount>>,
    /// The lists, summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<BTreeMap<String, AggregateCount>>,
}

/// GameServerSet, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "agones.dev",
    version: "v1",
    kind: "GameServerSet",
    plural: "gameserversets",
    scope: Scope::Namespaced,
    crd: Some(published),
    prepare,
    admit: admit_set,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&crd()));

fn crd() -> CustomResourceDefinition {
    GameServerSet::crd()
}

/// Returns the CRD that is served to clients.
fn published() -> CustomResourceDefinition {
    let mut crd = crd();
    words::for_game_servers(&mut crd, &["spec", "template", "spec"]);
    crd
}

/// Upstream fills in nothing here: an empty text is a value like any other.
fn prepare(value: &mut Value, admission: &Admission<'_>) {
    unset::keep_status::<GameServerSetStatus>(value, admission);
}

fn admit_set(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    prepare(value, admission);
    let renames = dialect::game_server(value, "/spec/template/spec");
    renames.put_back(unset::without_new_status(value, admission, |value| enter(value, admission)))
}

fn enter(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    admit::tidy(value, Some("/spec/template/spec/template"));
    admit::fit(value, &SCHEMA)?;
    let set: GameServerSet = admit::read(value, &SCHEMA)?;
    let mut problems: Vec<_> = admit::name_length(value).into_iter().collect();
    match admission.old.map(admit::read_as_is::<GameServerSet>) {
        None => problems.extend(set.spec.template.problems("spec.template")),
        Some(Some(old)) if old.spec.template != set.spec.template => {
            problems.push(Problem::new("spec.template", "cannot be changed"));
        }
        Some(_) => {}
    }
    problems.extend(priority::mixed(&set.spec.priorities, "spec.priorities"));
    admit::done(problems)
}

impl GameServerTemplate {
    /// Collects what is wrong with the template at `path`, with its defaults filled in.
    pub(super) fn problems(&self, path: &str) -> Vec<Problem> {
        let mut spec = self.spec.clone();
        spec.fill();
        let mut out = gameserver::problems(&spec, "", &format!("{path}.spec"));
        out.extend(labels::metadata(&self.metadata, &format!("{path}.metadata")));
        out
    }
}
