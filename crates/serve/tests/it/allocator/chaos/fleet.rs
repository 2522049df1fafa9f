//! The fleet of the servers: it is scaled in repeatedly, and its controllers can be killed.

use std::time::Duration;

use api::agones::{FLEET_LABEL, Fleet, GAME_SERVER_SET_LABEL, GameServerSet};
use cluster::Caches;
use control::Part;
use kube::api::{Api, DynamicObject, ListParams, Patch, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use process::Supervisor;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::allocator::world::game_servers;

const NAME: &str = "f";

/// Controllers of fleets and sets. Nothing makes pods of servers: the tests' own are Ready without.
pub(super) struct Controllers {
    client: Client,
    namespace: String,
    parts: &'static [Part],
    running: JoinSet<()>,
}

impl Controllers {
    pub(super) fn start(client: Client, namespace: &str) -> Self {
        Self::of(client, namespace, &[Part::Fleet, Part::GameServerSet])
    }

    fn of(client: Client, namespace: &str, parts: &'static [Part]) -> Self {
        let (namespace, running) = (namespace.to_owned(), JoinSet::new());
        let mut controllers = Self { client, namespace, parts, running };
        controllers.run();
        controllers
    }

    fn run(&mut self) {
        let (client, parts) = (self.client.clone(), self.parts);
        let caches = Caches::new(Some(self.namespace.clone()), false);
        self.running.spawn(async move {
            let (settings, supervisor) = (control::Settings::default(), Supervisor::new());
            let kinds = control::required_kinds(parts);
            let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
            control::run(client, caches, settings, parts, std::future::pending()).await;
        });
    }

    /// Ends the controllers wherever they are, and starts others.
    pub(super) async fn kill(&mut self) {
        self.running.shutdown().await;
        self.run();
    }
}

/// Makes a fleet and its set; gives what the metadata of its servers says of it.
pub(super) async fn make(client: &Client, namespace: &str, size: usize) -> Value {
    let mut fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"replicas": size, "template": {"spec": {
            "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
        }}},
    });
    let admission = api::Admission { old: None, now: jiff::Timestamp::now() };
    (api::find(None, "Fleet").unwrap().admit)(&mut fleet, &admission).unwrap();
    let fleets: Api<Fleet> = Api::namespaced(client.clone(), namespace);
    let fleet = serde_json::from_value(fleet).unwrap();
    fleets.create(&PostParams::default(), &fleet).await.unwrap();
    // Without a controller of sets, the set stays empty until it is filled.
    let mut controllers = Controllers::of(client.clone(), namespace, &[Part::Fleet]);
    let sets: Api<GameServerSet> = Api::namespaced(client.clone(), namespace);
    loop {
        let made = sets.list(&ListParams::default()).await.unwrap().items.pop();
        if let Some(set) = made {
            assert_eq!(usize::try_from(set.spec.replicas), Ok(size));
            controllers.running.shutdown().await;
            return json!({
                "labels": {FLEET_LABEL: NAME, GAME_SERVER_SET_LABEL: set.name_any()},
                "ownerReferences": [set.controller_owner_ref(&()).unwrap()],
            });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Makes the fleet smaller.
pub(super) async fn shrink(client: &Client, namespace: &str, by: i32) {
    let fleets: Api<Fleet> = Api::namespaced(client.clone(), namespace);
    let replicas = fleets.get(NAME).await.unwrap().spec.replicas - by;
    let smaller = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    fleets.patch(NAME, &Default::default(), &smaller).await.unwrap();
}

/// Waits until the fleet has the size it should have.
pub(super) async fn settles(client: &Client, namespace: &str) {
    let fleets: Api<Fleet> = Api::namespaced(client.clone(), namespace);
    let wanted = usize::try_from(fleets.get(NAME).await.unwrap().spec.replicas).unwrap();
    let servers: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &game_servers());
    for _ in 0..300 {
        let all = servers.list(&ListParams::default()).await.unwrap().items;
        let left = all.iter().filter(|s| s.data["status"]["state"] != "Shutdown").count();
        if left == wanted {
            return;
        }
        assert!(left > wanted, "{left} servers are left of a fleet of {wanted}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the fleet does not get to its size");
}
