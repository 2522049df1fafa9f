//! Observes fleets for decisions about nodes: how the game server of a pod is used, and which pods are still to come.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use api::agones::{
    FLEET_LABEL, Fleet, GameServer, GameServerSet, GameServerSpec, GameServerTemplate, PortPolicy,
    PortProtocol, may_evacuate,
};
use api::autoscaling::FleetAutoscaler;
use decide::fleet::{CountedServer, pods_to_come};
use decide::gameserver::State;
use decide::nodes::GameServerUse;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::virtual_pods::virtual_pods;
use crate::lister::{Lister, Unreadable, listers};
use crate::settings::Sidecar;

/// The label of a game server's pod.
const ROLE_LABEL: (&str, &str) = ("agones.dev/role", "gameserver");

listers! {
    /// The kinds that tell what fleets need.
    FleetListers: Lister<Fleet>, Lister<GameServerSet>, Lister<GameServer>, Lister<FleetAutoscaler>
}

/// A namespace and a name.
type Name = (String, String);

/// The game servers of a cluster, and which of them have pods.
#[derive(Default)]
pub(super) struct GameServers {
    servers: BTreeMap<Name, ObservedServer>,
    /// Pods of game servers that are not known.
    unknown_pods: BTreeSet<Name>,
}

struct ObservedServer {
    counted: CountedServer,
    /// Its set.
    set: Option<String>,
    game_server: Option<GameServerUse>,
}

impl GameServers {
    /// Reads all game servers.
    pub(super) fn read(world: &impl FleetListers) -> Result<Self, Unreadable> {
        let fixed = fixed(world)?;
        let mut servers = BTreeMap::new();
        for server in Lister::<GameServer>::list(world, None) {
            let server = server?;
            let server: &GameServer = server.borrow();
            let meta = &server.metadata;
            let state = State::parse(server.status.as_ref().map_or("", |status| &status.state));
            let counted = CountedServer {
                state,
                has_deletion_timestamp: meta.deletion_timestamp.is_some(),
                is_evacuating: is_evacuating(meta),
                has_pod: false,
            };
            let set = set_of(meta);
            let may_move = set.is_some_and(|set| !is_fixed(meta, set, &fixed));
            let set = set.map(|set| set.name.clone());
            let game_server = game_server_use(state, counted.has_deletion_timestamp, may_move);
            servers.insert(name(meta), ObservedServer { counted, set, game_server });
        }
        Ok(Self { servers, unknown_pods: BTreeSet::new() })
    }

    /// Records a pod, and returns how its game server is used; `None` for other pods, and for game servers that stay where they are.
    pub(super) fn observe(&mut self, pod: &Pod) -> Option<GameServerUse> {
        let owners = pod.metadata.owner_references.iter().flatten();
        let is_server = |o: &&OwnerReference| o.controller == Some(true) && o.kind == "GameServer";
        let owner = owners.into_iter().find(is_server)?;
        let (namespace, _) = name(&pod.metadata);
        let key = (namespace, owner.name.clone());
        match self.servers.get_mut(&key) {
            Some(server) => {
                server.counted.has_pod = true;
                server.game_server
            }
            None => {
                self.unknown_pods.insert(key);
                None
            }
        }
    }

    /// Returns the pods that are still to come for all sets, once all existing pods are observed.
    pub(super) fn pods_to_come(
        &self,
        world: &impl FleetListers,
        sidecar: &Sidecar,
    ) -> Result<Vec<Pod>, Unreadable> {
        let mut by_set: BTreeMap<(&str, &str), Vec<CountedServer>> = BTreeMap::new();
        for ((namespace, _), server) in &self.servers {
            let Some(set) = &server.set else { continue };
            by_set.entry((namespace, set)).or_default().push(server.counted);
        }
        let mut pods = Vec::new();
        for set in Lister::<GameServerSet>::list(world, None) {
            let set = set?;
            let set: &GameServerSet = set.borrow();
            if set.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let (namespace, name) = name(&set.metadata);
            let servers = by_set.get(&(&*namespace, &*name)).map_or(&[][..], Vec::as_slice);
            let unknown = self.unknown_pods_of(&namespace, &name);
            let count = pods_to_come(set.spec.replicas, servers, unknown);
            if count > 0 {
                let stand_for = format!("GameServerSet {namespace}/{name}");
                let pod = pod_template(&set.spec.template, sidecar);
                pods.extend(virtual_pods((&namespace, &name), &stand_for, pod, count));
            }
        }
        Ok(pods)
    }

    /// Counts the pods that belong to unknown game servers of a set: their names begin with its name.
    fn unknown_pods_of(&self, namespace: &str, set: &str) -> usize {
        let prefix = format!("{set}-");
        let is_of = |(ns, name): &&Name| ns == namespace && name.starts_with(&prefix);
        self.unknown_pods.iter().filter(is_of).count()
    }
}

/// Returns how a game server is used; `None` for an idle one that stays where it is.
pub(super) fn game_server_use(
    state: State,
    is_being_deleted: bool,
    may_move: bool,
) -> Option<GameServerUse> {
    match state {
        _ if is_being_deleted => Some(GameServerUse::Ending),
        State::Allocated => Some(GameServerUse::Allocated),
        State::Reserved => Some(GameServerUse::Reserved),
        State::Shutdown | State::Error | State::Unhealthy => Some(GameServerUse::Ending),
        State::PortAllocation
        | State::Creating
        | State::Starting
        | State::Scheduled
        | State::RequestReady
        | State::Ready
        | State::Unknown => may_move.then_some(GameServerUse::Idle),
    }
}

/// The fleets, and the sets without one, whose idle game servers stay where they are.
struct Fixed {
    fleets: BTreeSet<Name>,
    sets: BTreeSet<Name>,
}

fn fixed(world: &impl FleetListers) -> Result<Fixed, Unreadable> {
    let mut fixed = Fixed { fleets: BTreeSet::new(), sets: BTreeSet::new() };
    for fleet in Lister::<Fleet>::list(world, None) {
        let fleet = fleet?;
        let meta = &Borrow::<Fleet>::borrow(&fleet).metadata;
        if !may_evacuate(meta) {
            fixed.fleets.insert(name(meta));
        }
    }
    for set in Lister::<GameServerSet>::list(world, None) {
        let set = set?;
        let meta = &Borrow::<GameServerSet>::borrow(&set).metadata;
        if !may_evacuate(meta) {
            fixed.sets.insert(name(meta));
        }
    }
    Ok(fixed)
}

fn is_fixed(server: &ObjectMeta, set: &OwnerReference, fixed: &Fixed) -> bool {
    let (namespace, _) = name(server);
    match fleet_of(server) {
        Some(fleet) => fixed.fleets.contains(&(namespace, fleet.to_owned())),
        None => fixed.sets.contains(&(namespace, set.name.clone())),
    }
}

/// Returns the fleet of a game server.
pub(super) fn fleet_of(server: &ObjectMeta) -> Option<&str> {
    let fleet = server.labels.as_ref().and_then(|labels| labels.get(FLEET_LABEL));
    fleet.map(String::as_str).filter(|fleet| !fleet.is_empty())
}

/// Returns whether a game server is marked because its node is being emptied.
pub(super) fn is_evacuating(server: &ObjectMeta) -> bool {
    let annotations = server.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(api::agones::EVACUATE_ANNOTATION))
}

/// Returns the set of a game server.
pub(super) fn set_of(server: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = server.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true) && owner.kind == "GameServerSet")
}

fn name(meta: &ObjectMeta) -> Name {
    let namespace = meta.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (namespace, meta.name.clone().unwrap_or_default())
}

/// Returns the pod of a game server as far as a scheduler reads it before there is one: with the SDK server, and with the host ports that are
/// known in advance.
pub(super) fn pod_template(template: &GameServerTemplate, sidecar: &Sidecar) -> Value {
    let mut pod = template.spec.template.0.clone();
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][ROLE_LABEL.0] = json!(ROLE_LABEL.1);
    open_static_ports(&mut pod["spec"], &template.spec);
    let sdk = json!({
        "name": "sdk", "restartPolicy": "Always", "resources": sidecar.resources,
    });
    match pod["spec"]["initContainers"].as_array_mut() {
        Some(containers) => containers.insert(0, sdk),
        None => pod["spec"]["initContainers"] = json!([sdk]),
    }
    pod
}

/// Opens the host ports that are given. The container does not matter to a scheduler.
fn open_static_ports(spec: &mut Value, server: &GameServerSpec) {
    let Some(container) = spec["containers"].as_array_mut().and_then(|all| all.first_mut()) else {
        return;
    };
    for port in server.ports.iter().filter(|port| port.policy() == PortPolicy::Static) {
        let protocol = match port.protocol.unwrap_or_default() {
            PortProtocol::Udp => "UDP",
            PortProtocol::Tcp | PortProtocol::TcpUdp => "TCP",
        };
        let opened = json!({
            "containerPort": port.container_port, "hostPort": port.host_port, "protocol": protocol,
        });
        match container["ports"].as_array_mut() {
            Some(ports) => ports.push(opened),
            None => container["ports"] = json!([opened]),
        }
    }
}

/// Returns a recorded game server: as much of it as a decision about nodes reads.
pub(super) fn recorded(namespace: &str, name: &str, game_server: GameServerUse) -> Value {
    let state = match game_server {
        GameServerUse::Idle => State::Ready,
        GameServerUse::Allocated => State::Allocated,
        GameServerUse::Reserved => State::Reserved,
        GameServerUse::Ending => State::Shutdown,
    };
    let owner = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServerSet", "name": "recorded", "uid": "recorded",
        "controller": true, "blockOwnerDeletion": true,
    });
    let container = json!({"name": "game", "image": "redacted"});
    json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "ownerReferences": [owner]},
        "spec": {"template": {"spec": {"containers": [container]}}},
        "status": {"state": state.as_str()},
    })
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// Objects of all kinds.
    struct World(Vec<Value>);

    impl<K: kube::Resource<DynamicType = ()> + DeserializeOwned> Lister<K> for World {
        type Item = K;

        fn list(&self, _: Option<&str>) -> impl Iterator<Item = Result<K, Unreadable>> {
            let of_kind = self.0.iter().filter(|object| object["kind"] == *K::kind(&()));
            of_kind.map(|object| Ok(serde_json::from_value(object.clone()).unwrap()))
        }
    }

    fn template() -> Value {
        let ports = json!([
            {"name": "fixed", "portPolicy": "Static", "hostPort": 7000, "containerPort": 1},
            {"name": "any", "containerPort": 2},
        ]);
        let container = json!({"name": "game", "image": "game:1"});
        json!({"spec": {"ports": ports, "template": {"spec": {"containers": [container]}}}})
    }

    fn set(name: &str, replicas: i32) -> Value {
        json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServerSet",
            "metadata": {"name": name, "namespace": "n", "labels": {FLEET_LABEL: "f"}},
            "spec": {"replicas": replicas, "template": template()},
        })
    }

    fn fleet(annotations: Value) -> Value {
        json!({
            "apiVersion": "agones.dev/v1", "kind": "Fleet",
            "metadata": {"name": "f", "namespace": "n", "annotations": annotations},
            "spec": {"replicas": 2, "template": template()},
        })
    }

    fn server(name: &str, set: Option<&str>, state: &str) -> Value {
        let owner = set.map(|set| {
            json!({"apiVersion": "agones.dev/v1", "kind": "GameServerSet", "name": set, "uid": "1",
                   "controller": true})
        });
        let owners: Vec<Value> = owner.into_iter().collect();
        json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer",
            "metadata": {
                "name": name, "namespace": "n", "ownerReferences": owners, "labels": {FLEET_LABEL: "f"},
            },
            "spec": template()["spec"], "status": {"state": state},
        })
    }

    fn pod(server: &str) -> Pod {
        let owner = json!({"apiVersion": "agones.dev/v1", "kind": "GameServer", "name": server,
                           "uid": "1", "controller": true});
        let metadata = json!({"name": server, "namespace": "n", "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn idle_servers_of_a_fleet_move_unless_it_opts_out() {
        let used = |annotations: Value, set: Option<&str>, state: &str| {
            let world = World(vec![fleet(annotations), set_s(), server("a", set, state)]);
            GameServers::read(&world).unwrap().observe(&pod("a"))
        };
        fn set_s() -> Value {
            set("s", 1)
        }
        let (none, kept) = (json!({}), json!({"plimsoll.dev/evacuation": "false"}));
        let exact = json!({"plimsoll.dev/compat": "agones"});
        for (annotations, set, state, wanted) in [
            (&none, Some("s"), "Ready", Some(GameServerUse::Idle)),
            (&none, Some("s"), "Scheduled", Some(GameServerUse::Idle)),
            (&none, Some("s"), "Allocated", Some(GameServerUse::Allocated)),
            (&none, Some("s"), "Shutdown", Some(GameServerUse::Ending)),
            (&none, None, "Ready", None),
            (&none, None, "Reserved", Some(GameServerUse::Reserved)),
            (&kept, Some("s"), "Ready", None),
            (&kept, Some("s"), "Allocated", Some(GameServerUse::Allocated)),
            (&exact, Some("s"), "Ready", None),
        ] {
            assert_eq!(used(annotations.clone(), set, state), wanted, "{annotations} {state}");
        }
    }

    #[test]
    fn what_a_set_lacks_is_demand_until_its_pods_are_there() {
        let world = World(vec![
            fleet(json!({})),
            set("s", 4),
            set("other", 1),
            server("s-1", Some("s"), "Ready"),
            server("s-2", Some("s"), "Creating"),
        ]);
        let mut servers = GameServers::read(&world).unwrap();
        servers.observe(&pod("s-1"));
        let count = |servers: &GameServers| {
            let pods = servers.pods_to_come(&world, &Sidecar::default()).unwrap();
            let is_of = |name: &str| {
                let names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
                names.filter(|found| found.starts_with(name)).count()
            };
            (is_of("s-"), is_of("other-"))
        };
        assert_eq!(count(&servers), (3, 1), "two servers, and the pod of one");
        servers.observe(&pod("s-2"));
        assert_eq!(count(&servers), (2, 1));
        servers.observe(&pod("s-3"));
        assert_eq!(count(&servers), (1, 1), "a pod that is known before its server");
    }

    #[test]
    fn a_pod_to_come_has_the_sdk_server_and_its_fixed_host_ports() {
        let resources = json!({"requests": {"cpu": "30m"}});
        let sidecar = Sidecar { resources, ..Sidecar::default() };
        let template = serde_json::from_value(template()).unwrap();
        let pod = pod_template(&template, &sidecar);
        let pods = virtual_pods(("n", "s"), "GameServerSet n/s", pod, 1);
        let read = api::nodes::pod(&pods[0], &api::nodes::Volumes::default());
        assert_eq!(read.spec.requests.cpu, 30);
        let ports: Vec<u16> = read.spec.host_ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [7000]);
        assert_eq!(read.spec.labels.get("agones.dev/role"), Some("gameserver"));
    }
}
