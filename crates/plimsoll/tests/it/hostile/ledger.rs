//! The acknowledged writes of well-behaved clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::kill::Random;

const NAMES_PER_WRITER: u64 = 20;
const LABEL: &str = "ledger=yes";

/// The version and value of an object; `None` when it is not there.
type State = Option<(String, String)>;

/// Every object of honest clients, as the last acknowledged write left it.
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<String, State>>);

/// Clients that write until they are stopped.
pub(super) struct Writers {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Writers {
    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("an honest client is never refused");
        }
    }
}

impl Ledger {
    /// Starts clients, each with objects of its own.
    pub(super) fn write(self: &Arc<Self>, client: &Client, count: usize, seed: u64) -> Writers {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for id in 0..count {
            let (ledger, maps) = (Arc::clone(self), Api::default_namespaced(client.clone()));
            let (mut random, stopped) = (Random::seeded(!seed ^ id as u64), stopped.clone());
            tasks.spawn(async move {
                while !*stopped.borrow() {
                    let name = format!("ledger-{id}-{}", random.below(NAMES_PER_WRITER));
                    ledger.change(&maps, &name, &mut random).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
        Writers { stop, tasks }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Creates, replaces or deletes an object. After a write without a response, reads the object.
    async fn change(&self, maps: &Api<ConfigMap>, name: &str, random: &mut Random) {
        let before = self.0.lock().unwrap().get(name).cloned().flatten();
        let value = random.next().to_string();
        let mut map = ConfigMap {
            data: Some([("value".to_owned(), value.clone())].into()),
            ..ConfigMap::default()
        };
        map.metadata.name = Some(name.to_owned());
        map.metadata.labels = Some([("ledger".to_owned(), "yes".to_owned())].into());
        map.metadata.resource_version = before.as_ref().map(|(version, _)| version.clone());
        let deletes = before.is_some() && random.below(4) == 0;
        let after = (!deletes).then_some(value);
        let written = match &before {
            Some(_) if deletes => maps.delete(name, &DeleteParams::default()).await.map(|_| None),
            Some(_) => maps.replace(name, &PostParams::default(), &map).await.map(Some),
            None => maps.create(&PostParams::default(), &map).await.map(Some),
        };
        let now = match written {
            Ok(map) => map.as_ref().map(state),
            Err(kube::Error::Api(refused)) if refused.code < 500 && refused.code != 429 => {
                panic!("{name}: an honest client was refused: {refused:?}")
            }
            Err(_) => {
                let found = read(maps, name).await;
                let values = |state: &State| state.as_ref().map(|(_, value)| value.clone());
                let is_known = found == before || values(&found) == after;
                assert!(is_known, "{name}: was {before:?}, and is {found:?}");
                found
            }
        };
        self.0.lock().unwrap().insert(name.to_owned(), now);
    }

    /// Compares everything with what is there.
    pub(super) async fn check(&self, client: &Client) {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let list = maps.list(&ListParams::default().labels(LABEL)).await.unwrap();
        let there: BTreeMap<String, (String, String)> =
            list.items.iter().map(|map| (map.name_any(), state(map))).collect();
        let known = self.0.lock().unwrap().clone();
        for (name, acknowledged) in &known {
            assert_eq!(there.get(name), acknowledged.as_ref(), "{name}");
        }
        let strangers: Vec<_> = there.keys().filter(|name| !known.contains_key(*name)).collect();
        assert!(strangers.is_empty(), "objects that no client wrote: {strangers:?}");
    }
}

/// Reads an object; retries until there is a response.
async fn read(maps: &Api<ConfigMap>, name: &str) -> State {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match maps.get_opt(name).await {
            Ok(found) => return found.as_ref().map(state),
            Err(err) => assert!(Instant::now() < deadline, "{name}: no answer: {err}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn state(map: &ConfigMap) -> (String, String) {
    let value = map.data.as_ref().and_then(|data| data.get("value")).cloned();
    (map.resource_version().unwrap_or_default(), value.unwrap_or_default())
}
