//! Fleets and nodes together: nodes are requested before there are pods, and idle game servers move off nodes that are not needed.

mod race;

use api::agones::{Fleet, GameServer, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use jiff::ToSpan as _;
use jiff::tz::TimeZone;

use super::*;
use crate::cluster::state_of;

const EVACUATE: &str = "plimsoll.dev/evacuate";
/// The controllers of fleets and of nodes.
const BOTH: [Part; 5] =
    [Part::GameServer, Part::GameServerSet, Part::Fleet, Part::FleetAutoscaler, Part::Nodes];
/// Without that of game servers, none gets a pod.
const WITHOUT_PODS: [Part; 3] = [Part::GameServerSet, Part::Fleet, Part::Nodes];

/// Runs controllers as one process does.
async fn control_parts(
    client: Client,
    namespace: Option<String>,
    settings: Settings,
    parts: &'static [Part],
) {
    let caches = Caches::new(namespace, false);
    let (kinds, supervisor) = (required_kinds(parts), Supervisor::new());
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    let decisions = DecisionSettings { namespace: "default".to_owned(), ..settings.decisions };
    let settings = Settings { decisions, ..settings };
    run(client, caches, settings, parts, std::future::pending()).await;
}

/// A world with a group `g` of nodes for four game servers each.
async fn world(parts: &'static [Part], spec: Value) -> World {
    let mut world = World::idle(spec).await;
    world.group("g", json!({"max": 9}), json!({"startAfter": "1s"})).await;
    world.start_parts(parts);
    world
}

impl World {
    /// Starts controllers. On a cluster that tests share, those of game servers are for the namespace of this story.
    pub(super) fn start_parts(&mut self, parts: &'static [Part]) {
        let (client, settings) = (self.client(), self.cluster.settings());
        let namespace = (self.provider != "simulated").then(|| self.cluster.namespace.clone());
        self.tasks.spawn(control_parts(client, namespace, settings, parts));
    }

    /// Creates a fleet of game servers with 1 cpu each.
    async fn fleet(&self, name: &str, replicas: i32, annotations: Value) {
        let fleet: Fleet = serde_json::from_value(json!({
            "apiVersion": "agones.dev/v1", "kind": "Fleet",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"replicas": replicas, "scheduling": "Packed", "template": {"spec": {
                "ports": [{"name": "game", "containerPort": 7654}],
                "health": {"disabled": true},
                "template": {"spec": {
                    "nodeSelector": {"pool": self.name},
                    "tolerations": [{"key": "pool", "operator": "Exists"}],
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "game", "image": "game:1", "resources": {"requests": {"cpu": "1"}},
                    }],
                }},
            }}},
        }))
        .unwrap();
        self.cluster.api::<Fleet>().create(&PostParams::default(), &fleet).await.unwrap();
    }

    async fn scale(&self, fleet: &str, replicas: i32) {
        self.cluster.patch::<Fleet>(fleet, json!({"spec": {"replicas": replicas}})).await;
    }

    async fn ready(&self, count: usize) {
        let what = format!("{count} game servers are Ready, and no others are there");
        self.cluster
            .until(&what, async || {
                let servers = self.cluster.servers().await;
                servers.len() == count && servers.iter().all(|server| state_of(server) == "Ready")
            })
            .await;
    }

    /// The game servers on a node.
    async fn servers_on(&self, node: &str) -> Vec<GameServer> {
        let mut all = self.cluster.servers().await;
        all.retain(|server| server.status.as_ref().is_some_and(|status| status.node_name == node));
        all
    }

    /// Whether no game server is marked and no node cordoned.
    async fn is_released(&self) -> bool {
        let servers = self.cluster.servers().await;
        let nodes = self.nodes("g").await;
        servers.iter().all(|server| !server.annotations().contains_key(EVACUATE))
            && nodes.iter().all(|node| {
                node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true))
                    && !node.annotations().contains_key("plimsoll.dev/cordoned")
            })
    }

    /// Fills a node with a pod and three of four game servers, and returns the node that has the fourth.
    async fn with_one_on_a_second_node(&self, annotations: Value) -> String {
        self.pod("ballast", "1", json!({"annotations": safe_to_evict()})).await;
        until("the pod has a node", async || self.bound().await == 1).await;
        self.fleet("f", 3, annotations).await;
        self.ready(3).await;
        self.scale("f", 4).await;
        self.ready(4).await;
        self.least_busy().await
    }

    /// Returns the node with the fewest game servers.
    async fn least_busy(&self) -> String {
        let mut found = Vec::new();
        for node in self.nodes("g").await {
            found.push((self.servers_on(&node.name_any()).await.len(), node.name_any()));
        }
        found.into_iter().min().unwrap().1
    }
}

fn safe_to_evict() -> Value {
    json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})
}

#[tokio::test(start_paused = true)]
async fn nodes_are_requested_before_there_is_a_pod() {
    let mut world = world(&WITHOUT_PODS, json!({"scaleDown": {"enabled": false}})).await;
    world.fleet("f", 6, json!({})).await;
    until("two nodes are there", async || world.nodes("g").await.len() == 2).await;
    assert!(world.cluster.pods().await.is_empty());
    until("the scale-up is measured", async || {
        !world.group_status("g").await["provisionTime"].is_null()
    })
    .await;
    world.tasks.shutdown().await;
    world.start_parts(&BOTH);
    world.ready(6).await;
    assert_eq!(world.group_status("g").await["target"], 2, "no game server counts twice");
}

#[tokio::test(start_paused = true)]
async fn without_awareness_nodes_follow_pods() {
    let spec = json!({"fleets": {"aware": false}, "scaleDown": {"enabled": false}});
    let mut world = world(&WITHOUT_PODS, spec).await;
    world.fleet("f", 6, json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.nodes("g").await.is_empty());
    world.tasks.shutdown().await;
    world.start_parts(&BOTH);
    world.ready(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_game_server_counts_twice_while_a_fleet_grows() {
    let world = world(&BOTH, json!({"scaleDown": {"enabled": false}})).await;
    world.fleet("f", 1, json!({})).await;
    for (replicas, nodes) in [(3, 1), (4, 1), (9, 3), (12, 3), (21, 6)] {
        world.scale("f", replicas).await;
        world.ready(usize::try_from(replicas).unwrap()).await;
        assert_eq!(world.group_status("g").await["target"], nodes, "{replicas} game servers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_served_with_nodes_before_it_begins() {
    let mut world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    world.group("g", json!({"max": 9}), json!({"startAfter": "1m"})).await;
    world.start_parts(&BOTH);
    world.fleet("f", 1, json!({})).await;
    world.ready(1).await;
    until("the scale-up is measured", async || {
        !world.group_status("g").await["provisionTime"].is_null()
    })
    .await;
    let begins_at = world.cluster.clock.now().to_zoned(TimeZone::UTC) + 1.hours();
    let cron = format!("{} {} * * *", begins_at.minute(), begins_at.hour());
    let buffer =
        |size: i32| json!({"type": "Buffer", "buffer": {"bufferSize": size, "maxReplicas": 20}});
    let mut usually = buffer(1);
    usually["id"] = json!("usually");
    let evening = json!({"id": "evening", "type": "Schedule", "schedule": {
        "activePeriod": {"startCron": cron, "duration": "1h", "timezone": "UTC"},
        "policy": buffer(12),
    }});
    world
        .cluster
        .create::<FleetAutoscaler>(json!({
            "apiVersion": "autoscaling.agones.dev/v1", "kind": "FleetAutoscaler",
            "metadata": {"name": "f"},
            "spec": {"fleetName": "f", "policy": {"type": "Chain", "chain": [evening, usually]}},
        }))
        .await;
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert_eq!(world.nodes("g").await.len(), 1, "it is too early");
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let replicas = world.cluster.fleet("f").await.spec.replicas;
        if world.nodes("g").await.len() == 3 {
            assert_eq!(replicas, 1, "the nodes are there first");
            break;
        }
        assert!(world.cluster.clock.now() < begins_at.timestamp(), "the schedule has begun");
    }
    world.ready(12).await;
    assert_eq!(world.group_status("g").await["target"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_game_servers_move_and_their_node_goes() {
    let world = world(&BOTH, json!({})).await;
    let node = world.with_one_on_a_second_node(json!({})).await;
    let moved = world.servers_on(&node).await[0].name_any();
    world.delete_pod("ballast").await;
    until("the node is gone", async || {
        let ready = world.cluster.in_state("Ready").await.len();
        assert!(ready >= 4, "the replacement comes first: {ready}");
        world.nodes("g").await.len() == 1
    })
    .await;
    world.ready(4).await;
    assert!(world.cluster.servers().await.iter().all(|server| server.name_any() != moved));
    assert!(world.is_released().await);
    let evictions = world.reasons(&moved).await;
    assert!(!evictions.iter().any(|reason| reason == "Evicted"), "{evictions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_can_keep_its_game_servers_where_they_are() {
    let world = world(&BOTH, json!({})).await;
    let kept = json!({"plimsoll.dev/evacuation": "false"});
    let node = world.with_one_on_a_second_node(kept).await;
    world.delete_pod("ballast").await;
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(world.servers_on(&node).await.len(), 1);
    assert!(world.is_released().await);
}

#[tokio::test(start_paused = true)]
async fn without_success_in_a_quarter_of_an_hour_everything_is_released() {
    let mut world = world(&BOTH, json!({})).await;
    let node = world.with_one_on_a_second_node(json!({})).await;
    world.tasks.shutdown().await;
    // The replacement gets no pod.
    world.start_parts(&WITHOUT_PODS);
    world.delete_pod("ballast").await;
    let marked = async || {
        let servers = world.servers_on(&node).await;
        servers.iter().filter(|server| server.annotations().contains_key(EVACUATE)).count()
    };
    until("the game server is marked", async || marked().await == 1).await;
    let sets = world.cluster.list::<GameServerSet>().await;
    assert_eq!(sets[0].spec.replicas, 4);
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    assert_eq!((marked().await, world.cluster.servers().await.len()), (1, 5));
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    assert!(world.is_released().await);
    assert!(world.has_event(&node, "ScaleDownFailed").await);
    // The one that was not needed in the end is deleted again.
    until("the set has its size", async || {
        let servers = world.cluster.servers().await;
        servers.iter().filter(|server| state_of(server) != "Shutdown").count() == 4
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_die_at_any_request_leave_nothing_marked() {
    let mut world = World::idle(json!({})).await;
    world.group("g", json!({"max": 9}), json!({"startAfter": "0s"})).await;
    let (client, settings, seed) = (world.client(), world.cluster.settings(), fastrand::u64(..));
    eprintln!("deaths by seed {seed}");
    world.tasks.spawn(async move {
        let mut chance = fastrand::Rng::with_seed(seed);
        for number in 0.. {
            // The watches alone take about sixty requests.
            let life = chance.u32(50..100 + 20 * number);
            let (client, death) = client::mortal(client.clone(), life, chance.bool());
            let mut tasks = JoinSet::new();
            tasks.spawn(control_parts(client, None, settings.clone(), &BOTH));
            death.notified().await;
        }
    });
    world.with_one_on_a_second_node(json!({})).await;
    world.delete_pod("ballast").await;
    until("one node is left", async || world.nodes("g").await.len() == 1).await;
    world.ready(4).await;
    until("nothing is marked", async || world.is_released().await).await;
}

#[tokio::test(start_paused = true)]
async fn a_shrinking_fleet_deletes_first_where_nodes_should_go() {
    let world = world(&BOTH, json!({"scaleDown": {"enabled": false}})).await;
    let least_busy = world.with_one_on_a_second_node(json!({})).await;
    let nodes = world.nodes("g").await;
    let busy = nodes.iter().find(|node| node.name_any() != least_busy).unwrap().name_any();
    // The autoscaler of this test marks no nodes, and unmarks those of its groups: this one has none of them.
    let taint = json!([{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}]);
    let change = json!({"metadata": {"labels": {"plimsoll.dev/node-group": null}}, "spec": {"taints": taint}});
    let api: Api<Node> = Api::all(world.client());
    api.patch(&busy, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    world.scale("f", 1).await;
    world.ready(1).await;
    assert_eq!(world.servers_on(&least_busy).await.len(), 1);
}
