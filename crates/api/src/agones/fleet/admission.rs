//! Admission of fleets: defaults and validation.

use std::sync::LazyLock;

use decide::fleet::Amount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use super::{Fleet, FleetSpec, FleetStatus, RollingUpdate, StrategyType};
use crate::agones::view::amount;
use crate::agones::{SDK_VERSION, SDK_VERSION_ANNOTATION, dialect, priority};
use crate::schema::{Schema, words};
use crate::{Admission, Kind, Problem, Scope, admit, unset};

/// Fleet, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "agones.dev",
    version: "v1",
    kind: "Fleet",
    plural: "fleets",
    scope: Scope::Namespaced,
    crd: Some(published),
    prepare,
    admit: admit_fleet,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&crd()));

fn crd() -> CustomResourceDefinition {
    Fleet::crd()
}

/// Returns the CRD that is served to clients.
fn published() -> CustomResourceDefinition {
    let mut crd = crd();
    words::for_game_servers(&mut crd, &["spec", "template", "spec"]);
    crd
}

/// Upstream fills in new fleets only: in a change an empty text is a value like any other.
fn prepare(value: &mut Value, admission: &Admission<'_>) {
    unset::keep_status::<FleetStatus>(value, admission);
    if admission.old.is_none() {
        unset::remove_empty(value, "/spec", &["scheduling", "strategy.type"]);
        unset::remove_empty(value, "/spec/template/spec", &unset::GAME_SERVER);
    }
}

fn admit_fleet(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    prepare(value, admission);
    let renames = dialect::game_server(value, "/spec/template/spec");
    renames.put_back(unset::without_new_status(value, admission, |value| enter(value, admission)))
}

fn enter(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    admit::tidy(value, Some("/spec/template/spec/template"));
    let is_new = admission.old.is_none();
    let fleet: Fleet = admit::read(value, &SCHEMA)?;
    let mut spec = fleet.spec;
    if is_new || spec.strategy.type_.is_some() {
        spec.fill();
    }
    value["spec"] = admit::json(&spec);
    if is_new {
        value["metadata"]["annotations"][SDK_VERSION_ANNOTATION] = json!(SDK_VERSION);
    }
    admit::fit(value, &SCHEMA)?;
    let mut problems: Vec<_> = admit::name_length(value).into_iter().collect();
    problems.extend(problems_of(&spec));
    admit::done(problems)
}

impl FleetSpec {
    /// Fills in what was left out. The template keeps its gaps: each game server fills its own.
    pub fn fill(&mut self) {
        let type_ = *self.strategy.type_.get_or_insert_default();
        if type_ == StrategyType::RollingUpdate {
            let quarter = || IntOrString::String("25%".to_owned());
            let rolling = self.strategy.rolling_update.get_or_insert_default();
            rolling.max_surge.get_or_insert_with(quarter);
            rolling.max_unavailable.get_or_insert_with(quarter);
        }
        priority::fill_order(&mut self.priorities);
    }
}

fn problems_of(spec: &FleetSpec) -> Vec<Problem> {
    let mut out = Vec::new();
    match spec.strategy.type_ {
        Some(StrategyType::RollingUpdate) => {
            let RollingUpdate { max_surge, max_unavailable } =
                spec.strategy.rolling_update.clone().unwrap_or_default();
            let path = "spec.strategy.rollingUpdate";
            out.extend(step(max_unavailable.as_ref(), &format!("{path}.maxUnavailable")));
            out.extend(step(max_surge.as_ref(), &format!("{path}.maxSurge")));
        }
        Some(StrategyType::Recreate) => {}
        None => {
            let choices = ["RollingUpdate", "Recreate"];
            out.push(Problem::not_supported("spec.strategy.type", "", &choices));
        }
    }
    out.extend(spec.template.problems("spec.template"));
    if let Some(overflow) = &spec.allocation_overflow {
        out.extend(overflow.problems("spec.allocationOverflow"));
    }
    out.extend(priority::mixed(&spec.priorities, "spec.priorities"));
    out
}

/// Checks one bound of a rolling update.
fn step(bound: Option<&IntOrString>, path: &str) -> Option<Problem> {
    let message = match (bound?, amount(bound?)) {
        (_, Some(Amount::Count(1..) | Amount::Percent(1..=99))) => return None,
        (IntOrString::Int(n), _) => format!("expected at least 1, found {n}"),
        (IntOrString::String(text), _) => {
            format!("expected a share between 1% and 99%, found `{text}`")
        }
    };
    Some(Problem::new(path, message))
}
