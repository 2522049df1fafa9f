//! The inputs of recorded decisions: the objects that were read, reduced to the fields that decisions depend on.
//!
//! `plimsoll evaluate` reads them as it reads any file. Pod templates, and labels and annotations of others, are left out: they may hold
//! credentials.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use api::agones::{
    ERRORED_AT_ANNOTATION, EVACUATE_ANNOTATION, FAILED_BEFORE_ANNOTATION, FLEET_LABEL, Fleet,
    FleetStatus, GAME_SERVER_SET_LABEL, GameServerSet, GameServerTemplate, LEAVING_ANNOTATION,
    PodTemplate,
};
use api::autoscaling::FleetAutoscaler;
use decide::fleet::{self, History, Reply};
use decide::gameserver::{GameServer, Occupancy, State};
use decide::nodes::DELETION_CANDIDATE_TAINT;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

/// The annotation of a recorded Node: how many game servers it has besides the recorded ones, as `ready=3,allocated=4`.
pub const OCCUPANCY_ANNOTATION: &str = "plimsoll.dev/other-game-servers";
/// The annotation of a recorded FleetAutoscaler: the sizes that were wanted within its stabilization window, as `TIME=5,TIME=3`.
pub const HISTORY_ANNOTATION: &str = "plimsoll.dev/wanted-sizes";
/// The annotation of a recorded template: a hash of the whole one.
const TEMPLATE_ANNOTATION: &str = "plimsoll.dev/template-hash";

/// Returns a fleet with the counts that the decision was made with.
pub(crate) fn fleet(fleet: &Fleet, status: Option<&fleet::FleetStatus>) -> Value {
    let mut fleet = fleet.clone();
    fleet.metadata = reduced(&fleet.metadata);
    fleet.spec.template = template(&fleet.spec.template);
    fleet.spec.allocation_overflow = None;
    let allocations = fleet.status.as_ref().map_or(0, |status| status.allocations);
    if let Some(status) = status {
        fleet.status = Some(FleetStatus::from_sums(status, allocations));
    }
    json!(fleet)
}

/// Returns a set of game servers.
pub(crate) fn set(set: &GameServerSet) -> Value {
    let mut set = set.clone();
    set.metadata = reduced(&set.metadata);
    set.spec.template = template(&set.spec.template);
    set.spec.allocation_overflow = None;
    json!(set)
}

/// Returns an autoscaler, with the sizes that it wanted lately.
pub(crate) fn autoscaler(autoscaler: &FleetAutoscaler, history: &History) -> Value {
    let mut autoscaler = autoscaler.clone();
    autoscaler.metadata = reduced(&autoscaler.metadata);
    autoscaler.status = None;
    let history = write_history(history);
    if !history.is_empty() {
        let annotations = autoscaler.metadata.annotations.get_or_insert_default();
        annotations.insert(HISTORY_ANNOTATION.to_owned(), history);
    }
    json!(autoscaler)
}

/// Returns a game server of a fleet. The values of its lists are counted only, and are replaced.
pub(crate) fn game_server(server: &GameServer, fleet: &str) -> Value {
    let counters: BTreeMap<&str, Value> = server
        .counters
        .iter()
        .map(|(name, c)| (&**name, json!({"count": c.count, "capacity": c.capacity})))
        .collect();
    let values = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let lists: BTreeMap<&str, Value> = server
        .lists
        .iter()
        .map(|(name, l)| {
            (&**name, json!({"capacity": l.capacity, "values": values(l.values.len())}))
        })
        .collect();
    let mut labels = BTreeMap::from([(FLEET_LABEL, fleet)]);
    labels.extend(server.labels.get(GAME_SERVER_SET_LABEL).map(|s| (GAME_SERVER_SET_LABEL, &**s)));
    let read =
        [ERRORED_AT_ANNOTATION, FAILED_BEFORE_ANNOTATION, LEAVING_ANNOTATION, EVACUATE_ANNOTATION];
    let annotations = server.annotations.iter().filter(|(name, _)| read.contains(&&***name));
    let annotations: BTreeMap<&str, &str> = annotations.map(|(k, v)| (&**k, &**v)).collect();
    let mut object = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {
            "name": &*server.name, "namespace": &*server.namespace, "uid": &*server.name,
            "creationTimestamp": Time(server.created_at), "labels": labels, "annotations": annotations,
        },
        "spec": {"template": pod_template(["game"])},
        "status": {"state": server.state.to_string(), "nodeName": &*server.node},
    });
    if server.has_deletion_timestamp {
        object["metadata"]["deletionTimestamp"] = json!(Time(server.created_at));
    }
    if !counters.is_empty() {
        object["status"]["counters"] = json!(counters);
    }
    if !lists.is_empty() {
        object["status"]["lists"] = json!(lists);
    }
    object
}

/// Returns the nodes of game servers, each with the count of its other game servers.
pub(crate) fn nodes<'a>(
    servers: impl IntoIterator<Item = &'a GameServer>,
    occupancy: &Occupancy,
) -> Vec<Value> {
    let mut own: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    for server in servers {
        let [ready, allocated] = own.entry(&server.node).or_default();
        *ready += u32::from(server.state == State::Ready);
        *allocated += u32::from(server.state == State::Allocated);
    }
    let known = own.iter().filter_map(|(node, own)| Some((*node, occupancy.load(node)?, own)));
    let node = |(name, load, own): (&str, decide::gameserver::NodeLoad, &[u32; 2])| {
        let ready = load.ready.saturating_sub(own[0]);
        let allocated = load.allocated.saturating_sub(own[1]);
        let others = format!("ready={ready},allocated={allocated}");
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {OCCUPANCY_ANNOTATION: others}},
        });
        if let Some(since) = occupancy.unneeded_since(name) {
            let (key, since) = (DELETION_CANDIDATE_TAINT, since.as_second().to_string());
            let taint = json!({"key": key, "value": since, "effect": "PreferNoSchedule"});
            node["spec"]["taints"] = json!([taint]);
        }
        node
    };
    known.filter(|(name, ..)| !name.is_empty()).map(node).collect()
}

/// Returns the reply of a webhook or Wasm module to the question with this id; `None` where there was none.
pub(crate) fn reply(id: &str, reply: &Reply, fleet: &Fleet) -> Option<Value> {
    let (name, namespace) = (&fleet.metadata.name, &fleet.metadata.namespace);
    let mut review = json!({
        "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaleReview",
        "request": {"uid": id, "name": name, "namespace": namespace},
    });
    let response = match reply {
        Reply::None => return None,
        Reply::Failed(_) => return Some(review),
        Reply::Keep => json!({"uid": id, "scale": false, "replicas": 0}),
        Reply::Scale(replicas) => json!({"uid": id, "scale": true, "replicas": replicas}),
    };
    review["response"] = response;
    Some(review)
}

/// Reads the counts of Ready and Allocated game servers that a recorded Node has besides the recorded ones.
pub fn read_occupancy(text: &str) -> Option<[u32; 2]> {
    let (ready, allocated) = text.strip_prefix("ready=")?.split_once(",allocated=")?;
    Some([ready.parse().ok()?, allocated.parse().ok()?])
}

/// Reads the sizes that a recorded autoscaler wanted lately.
pub fn read_history(text: &str) -> History {
    let read = |entry: &str| {
        let (at, size) = entry.split_once('=')?;
        Some((at.parse::<Timestamp>().ok()?, size.parse::<i32>().ok()?))
    };
    text.split(',').filter_map(read).collect()
}

fn write_history(history: &History) -> String {
    let entries = history.entries().map(|(at, size)| format!("{at:.0}={size}"));
    entries.collect::<Vec<_>>().join(",")
}

/// Returns the metadata that decisions read.
fn reduced(meta: &ObjectMeta) -> ObjectMeta {
    let is_read = |name: &str| name.starts_with("agones.dev/") || name.starts_with("plimsoll.dev/");
    let texts = |map: &Option<BTreeMap<String, String>>| {
        let kept = map.iter().flatten().filter(|(name, _)| is_read(name));
        let kept: BTreeMap<_, _> = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
        (!kept.is_empty()).then_some(kept)
    };
    ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        creation_timestamp: meta.creation_timestamp.clone(),
        deletion_timestamp: meta.deletion_timestamp.clone(),
        labels: texts(&meta.labels),
        annotations: texts(&meta.annotations),
        ..ObjectMeta::default()
    }
}

/// Returns a template without its pod and metadata. Two of them are equal if the whole ones are.
fn template(template: &GameServerTemplate) -> GameServerTemplate {
    let mut hasher = DefaultHasher::new();
    json!(template).to_string().hash(&mut hasher);
    let hash = format!("{:016x}", hasher.finish());
    let mut spec = template.spec.clone();
    spec.template = pod_template(spec.template.container_names());
    let annotations = Some(BTreeMap::from([(TEMPLATE_ANNOTATION.to_owned(), hash)]));
    let metadata = ObjectMeta { annotations, ..ObjectMeta::default() };
    GameServerTemplate { metadata, spec }
}

fn pod_template<'a>(names: impl IntoIterator<Item = &'a str>) -> PodTemplate {
    let container = |name| json!({"name": name, "image": "redacted"});
    let containers: Vec<Value> = names.into_iter().map(container).collect();
    PodTemplate(json!({"spec": {"containers": containers}}))
}
