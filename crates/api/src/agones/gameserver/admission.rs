//! Admission of game servers: defaults, in the order in which Agones applies them.

use std::sync::LazyLock;

use decide::gameserver::State;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use super::{
    Eviction, EvictionSafe, GameServer, GameServerSpec, GameServerStatus, LogLevel, PortPolicy,
};
use crate::agones::{
    DEV_ADDRESS_ANNOTATION, FINALIZER, SDK_VERSION, SDK_VERSION_ANNOTATION, Scheduling, dialect,
};
use crate::schema::{Schema, words};
use crate::{Admission, Kind, Problem, Scope, admit, unset};

/// GameServer, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "agones.dev",
    version: "v1",
    kind: "GameServer",
    plural: "gameservers",
    scope: Scope::Namespaced,
    crd: Some(published),
    prepare,
    admit: admit_game_server,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&crd()));

/// Makes the CRD. Upstream gave game servers a scale subresource (so that a budget can count them) on fields that are
/// always 1, and no status subresource: one write changes metadata, spec and status together. A state has to be one that there
/// is; leaving it out is fine, and admission then chooses the first one.
fn crd() -> CustomResourceDefinition {
    let mut crd = GameServer::crd();
    let one = JSONSchemaProps {
        type_: Some("integer".to_owned()),
        description: Some("Always 1, for the scale subresource.".to_owned()),
        default: Some(JSON(json!(1))),
        minimum: Some(1.0),
        maximum: Some(1.0),
        ..JSONSchemaProps::default()
    };
    for version in &mut crd.spec.versions {
        if let Some(subresources) = &mut version.subresources {
            subresources.status = None;
        }
        let schema = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut());
        let parts = schema.and_then(|s| s.properties.as_mut());
        for part in parts.into_iter().flat_map(|p| p.values_mut()) {
            let properties = part.properties.get_or_insert_default();
            properties.insert("immutableReplicas".to_owned(), one.clone());
            if let Some(state) = properties.get_mut("state") {
                state.default = None;
                state.enum_ = Some(State::NAMED.iter().map(|s| JSON(s.as_str().into())).collect());
            }
        }
    }
    crd
}

/// Returns the CRD that is served to clients.
fn published() -> CustomResourceDefinition {
    let mut crd = crd();
    words::for_game_servers(&mut crd, &["spec"]);
    crd
}

/// Only new game servers are filled in. Their status is written with the rest, so it counts; an empty state is filled in later.
fn prepare(value: &mut Value, admission: &Admission<'_>) {
    if admission.old.is_none() {
        unset::remove_empty(value, "/spec", &unset::GAME_SERVER);
        unset::remove_empty(value, "/spec", &["ports[].container"]);
        unset::remove_empty(value, "/status", &["state", "eviction.safe"]);
    }
}

fn admit_game_server(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    prepare(value, admission);
    let renames = dialect::game_server(value, "/spec");
    renames.put_back(enter(value, admission))
}

fn enter(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    admit::tidy(value, Some("/spec/template"));
    if admission.old.is_some() {
        admit::fit(value, &SCHEMA)?;
        return admit::read::<GameServer>(value, &SCHEMA).map(drop);
    }
    let server: GameServer = admit::read(value, &SCHEMA)?;
    let mut spec = server.spec;
    spec.fill();
    let mut status = server.status.unwrap_or_default();
    status.begin(&spec);
    mark(&mut value["metadata"]);
    value["spec"] = admit::json(&spec);
    value["status"] = admit::json(&status);
    admit::fit(value, &SCHEMA)?;
    let dev_address = value["metadata"]["annotations"][DEV_ADDRESS_ANNOTATION].as_str();
    let mut problems: Vec<_> = admit::name_length(value).into_iter().collect();
    problems.extend(super::problems(&spec, dev_address.unwrap_or_default(), "spec"));
    admit::done(problems)
}

/// Notes who made the game server, and holds it until its pod is gone.
fn mark(metadata: &mut Value) {
    metadata["annotations"][SDK_VERSION_ANNOTATION] = json!(SDK_VERSION);
    if !metadata["finalizers"].is_array() {
        metadata["finalizers"] = json!([]);
    }
    if let Some(finalizers) = metadata["finalizers"].as_array_mut()
        && !finalizers.iter().any(|f| f == FINALIZER)
    {
        finalizers.push(json!(FINALIZER));
    }
}

impl GameServer {
    /// Fills in what admission fills in, for an object that may have been stored without. Returns whether it was: then its status is
    /// only begun here, and still has to be written.
    pub fn fill(&mut self) -> bool {
        self.spec.fill();
        let status = self.status.get_or_insert_default();
        let is_bare = status.state.is_empty();
        if is_bare {
            status.begin(&self.spec);
        }
        is_bare
    }
}

impl GameServerSpec {
    /// Fills in what was left out.
    pub fn fill(&mut self) {
        let mut names = self.template.container_names();
        if let (Some(only), None) = (names.next(), names.next()) {
            self.container = only.to_owned();
        }
        for port in &mut self.ports {
            if port.range.is_empty() {
                port.range = "default".to_owned();
            }
            port.port_policy.get_or_insert_default();
            port.protocol.get_or_insert_default();
            port.container.get_or_insert_with(|| self.container.clone());
        }
        if !self.health.disabled {
            let at_least = |value: &mut i32, default| {
                if *value <= 0 {
                    *value = default;
                }
            };
            at_least(&mut self.health.period_seconds, 5);
            at_least(&mut self.health.failure_threshold, 3);
            at_least(&mut self.health.initial_delay_seconds, 5);
        }
        self.eviction.get_or_insert_default().safe.get_or_insert(EvictionSafe::Never);
        self.scheduling.get_or_insert(Scheduling::Packed);
        self.sdk_server.log_level.get_or_insert(LogLevel::Info);
        if self.sdk_server.grpc_port == 0 {
            self.sdk_server.grpc_port = 9357;
        }
        if self.sdk_server.http_port == 0 {
            self.sdk_server.http_port = 9358;
        }
    }
}

impl GameServerStatus {
    /// Begins the life of a game server; a state that was given is kept.
    fn begin(&mut self, spec: &GameServerSpec) {
        if self.state.is_empty() {
            let needs_port =
                |p: PortPolicy| matches!(p, PortPolicy::Dynamic | PortPolicy::Passthrough);
            let waits = spec.ports.iter().any(|p| needs_port(p.policy()));
            self.state = if waits { "PortAllocation" } else { "Creating" }.to_owned();
        }
        let annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict";
        self.eviction = if spec.template.annotation(annotation) == Some("true") {
            Some(Eviction { safe: Some(EvictionSafe::Always) })
        } else {
            spec.eviction.clone()
        };
        if spec.counters.is_some() {
            self.counters = spec.counters.clone();
        }
        if spec.lists.is_some() {
            self.lists = spec.lists.clone();
        }
    }
}
