//! Recorded cases with random invalid changes: each is rejected at admission, or can be evaluated.

use std::fs;
use std::path::Path;

use decide::fleet::{self, FleetObservation, Limits, Replies, Reply, Sizing};
use decide::gameserver::{GameServer, Occupancy};
use jiff::Timestamp;
use plimsoll_api::{Admission, agones, allocation, autoscaling, find};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn every_admitted_object_can_be_evaluated() {
    let cases = cases();
    let mut chance = Chance(0x5eed);
    let mut decided = 0;
    for _ in 0..4000 {
        let mut objects = cases[chance.below(cases.len())].clone();
        for _ in 0..=chance.below(2) {
            let index = chance.below(objects.len());
            spoil(&mut objects[index], &mut chance);
        }
        decided += usize::from(decide_all(objects));
    }
    assert!(decided > 400, "only {decided} of 4000 were admitted: the spoiling is too rough");
}

/// Admits all objects and decides about each; false when one is refused.
fn decide_all(mut objects: Vec<Value>) -> bool {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    for object in &mut objects {
        let Some(kind) = object["kind"].as_str().and_then(|k| find(None, k)) else { continue };
        let stored = object["metadata"]["uid"].is_string().then(|| object.clone());
        if (kind.admit)(object, &Admission { old: stored.as_ref(), now }).is_err() {
            return false;
        }
    }
    let servers: Vec<GameServer> =
        all::<agones::GameServer>(&objects, "GameServer").iter().map(|s| s.view()).collect();
    let nodes = Occupancy::from_servers(&servers);
    let fleets = all::<agones::Fleet>(&objects, "Fleet");
    for autoscaler in all::<autoscaling::FleetAutoscaler>(&objects, "FleetAutoscaler") {
        for reply in [Reply::None, Reply::Keep, Reply::Scale(i32::MAX), Reply::Scale(-1)] {
            let policy = autoscaler.spec.policy.parse().unwrap();
            for one in &fleets {
                let fleet = one.view();
                let (servers, nodes) = (servers.as_slice(), &nodes);
                let observation =
                    FleetObservation { fleet: &fleet, servers, nodes, other_owner: None };
                let mut replies = Replies::new();
                while let Sizing::Ask(id) = fleet::size(&policy, observation, &replies, now) {
                    assert_eq!(replies.insert(id, reply.clone()), None, "it is asked for once");
                }
            }
        }
    }
    for set in all::<agones::GameServerSet>(&objects, "GameServerSet") {
        for mode in [fleet::Mode::Agones, fleet::Mode::Repaired] {
            let pass =
                fleet::reconcile(&set.view(mode), &servers, &nodes, Limits::for_mode(mode), now);
            for name in pass.delete {
                assert!(servers.iter().any(|s| s.name == name && s.is_deletable()), "{name}");
            }
        }
        for one in &fleets {
            let view = set.in_rollout();
            let rest = [view.clone()];
            let update = one.update().unwrap();
            let _ = fleet::rollout(one.spec.replicas, view.status.ready, update, &view, &rest);
        }
    }
    for one in all::<allocation::GameServerAllocation>(&objects, "GameServerAllocation") {
        let _ = decide::allocation::allocate(&one.view(1), &servers, &nodes, now);
    }
    true
}

fn all<T: DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<T> {
    let of_kind = objects.iter().filter(|o| o["kind"] == kind);
    of_kind.map(|o| serde_json::from_value(o.clone()).unwrap()).collect()
}

fn cases() -> Vec<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let mut cases = Vec::new();
    for file in ["fleetautoscaler", "scaledown", "allocation", "validation"] {
        let text = fs::read_to_string(folder.join(format!("agones-{file}.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        cases.extend(lines.filter_map(|case| case["objects"].as_array().cloned()));
    }
    cases
}

/// A few reproducible dice.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// Changes or removes one value somewhere in the object.
fn spoil(value: &mut Value, chance: &mut Chance) {
    let count = match value {
        Value::Object(map) => map.len(),
        Value::Array(items) => items.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    let (chosen, what) = (chance.below(count), chance.below(20));
    match value {
        Value::Object(map) if count > 0 && what == 1 => {
            let name = map.keys().nth(chosen).unwrap().clone();
            map.remove(&name);
        }
        Value::Object(map) if count > 0 && what > 1 => {
            spoil(map.values_mut().nth(chosen).unwrap(), chance);
        }
        Value::Array(items) if count > 0 && what > 0 => spoil(&mut items[chosen], chance),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => *value = nonsense(chance),
    }
}

fn nonsense(chance: &mut Chance) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(i32::MAX),
        json!(""),
        json!("99%"),
        json!("100%"),
        json!("\u{0}é"),
        json!("9999-12-31T23:59:59Z"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": null}),
    ];
    all[chance.below(all.len())].clone()
}
