//! Ten thousand writes to a process that is killed repeatedly meanwhile.
//!
//! Every acknowledged write is there after a restart, versions only grow, and a watcher that takes up where it was cut
//! off sees every change once and in order.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};

const WRITES: usize = 10_000;
const WRITERS: usize = 16;
const NAMES_PER_WRITER: u64 = 20;

/// What is known of an object: the version and value of the last acknowledged write, `None` when it is gone.
type Known = Option<(u64, String)>;

#[derive(Default)]
struct Model {
    known: BTreeMap<String, Known>,
    /// Writes that were sent and not answered: they may have happened.
    doubtful: BTreeMap<String, Option<String>>,
    /// The version of every acknowledged write that left an object, and whose it was.
    acknowledged: BTreeMap<u64, String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new();
    let model = Arc::new(Mutex::new(Model::default()));
    let done = Arc::new(AtomicUsize::new(0));
    let mut watched = WatchedChanges::default();
    let mut newest = 0;
    let mut kills = 0;
    while done.load(Ordering::Relaxed) < WRITES {
        let (child, client) = start(dir.path()).await;
        newest = check(&client, &model, newest).await;
        if kills == 0 {
            // The watcher starts before the first write, and from then on where it was cut off.
            watched.reached = newest;
        }
        let watching = tokio::spawn(watch(client.clone(), std::mem::take(&mut watched), None));
        let writers: Vec<_> = (0..WRITERS)
            .map(|id| {
                tokio::spawn(write(
                    client.clone(),
                    id,
                    Arc::clone(&model),
                    Arc::clone(&done),
                    random.fork(),
                ))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300 + random.below(2700))).await;
        kill(child);
        kills += 1;
        for writer in writers {
            writer.await.unwrap();
        }
        watched = watching.await.unwrap();
    }
    let (child, client) = start(dir.path()).await;
    check(&client, &model, newest).await;
    let last = model.lock().unwrap().acknowledged.keys().next_back().copied();
    watched = watch(client.clone(), watched, last).await;
    let model = model.lock().unwrap();
    for (version, name) in &model.acknowledged {
        assert_eq!(
            watched.changes.get(version),
            Some(name),
            "the watcher missed version {version}"
        );
    }
    assert!(kills > 1, "it was killed while it worked");
    println!(
        "{} writes, {kills} kills, {} events",
        done.load(Ordering::Relaxed),
        watched.changes.len()
    );
    kill(child);
}

/// Starts the program and waits until it is ready.
async fn start(dir: &Path) -> (Child, Client) {
    let mut child = crate::plimsoll()
        .args(["up", "--api-only", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.unwrap().starts_with("export KUBECONFIG="));
    assert!(ready, "it came up");
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    (child, Client::try_from(config).unwrap())
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Compares what is there with what was acknowledged, and settles what was in doubt.
async fn check(client: &Client, model: &Mutex<Model>, newest: u64) -> u64 {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap().parse().unwrap();
    assert!(version >= newest, "versions only grow: {version} after {newest}");
    let there: BTreeMap<String, (u64, String)> =
        list.items.iter().map(|map| (map.name_any(), state(map))).collect();
    let mut model = model.lock().unwrap();
    let doubtful = std::mem::take(&mut model.doubtful);
    for (name, known) in &mut model.known {
        let found = there.get(name).cloned();
        let values = |state: &Known| state.as_ref().map(|(_, value)| value.clone());
        let is_doubtful = doubtful.get(name).is_some_and(|after| values(&found) == *after);
        assert!(found == *known || is_doubtful, "{name}: acknowledged {known:?}, found {found:?}");
        *known = found;
    }
    let highest = model.acknowledged.keys().next_back().copied().unwrap_or_default();
    assert!(version >= highest, "version {highest} was acknowledged and only {version} is there");
    version
}

fn state(map: &ConfigMap) -> (u64, String) {
    let value = map.data.as_ref().and_then(|d| d.get("value")).cloned().unwrap_or_default();
    (map.resource_version().unwrap().parse().unwrap(), value)
}

/// Makes, changes and deletes objects of its own until the server is gone.
async fn write(
    client: Client,
    id: usize,
    model: Arc<Mutex<Model>>,
    done: Arc<AtomicUsize>,
    mut random: Random,
) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    while done.load(Ordering::Relaxed) < WRITES {
        let name = format!("w{id}-{}", random.below(NAMES_PER_WRITER));
        let known = model.lock().unwrap().known.get(&name).cloned().flatten();
        let value = random.next().to_string();
        let deletes = known.is_some() && random.below(4) == 0;
        let after = (!deletes).then(|| value.clone());
        {
            let mut model = model.lock().unwrap();
            model.doubtful.insert(name.clone(), after);
            model.known.entry(name.clone()).or_default();
        }
        let mut map =
            ConfigMap { data: Some([("value".to_owned(), value)].into()), ..ConfigMap::default() };
        map.metadata.name = Some(name.clone());
        let written = match &known {
            Some(_) if deletes => maps.delete(&name, &DeleteParams::default()).await.map(|_| None),
            Some((version, _)) => {
                map.metadata.resource_version = Some(version.to_string());
                maps.replace(&name, &PostParams::default(), &map).await.map(Some)
            }
            None => maps.create(&PostParams::default(), &map).await.map(Some),
        };
        match written {
            Ok(map) => {
                let mut model = model.lock().unwrap();
                let state = map.as_ref().map(state);
                if let Some((version, _)) = &state {
                    model.acknowledged.insert(*version, name.clone());
                }
                model.known.insert(name.clone(), state);
                model.doubtful.remove(&name);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
            // The server was killed: whether this was written is in doubt.
            Err(_) => return,
        }
    }
}

/// The changes that a watcher received: the name of the changed object by version.
#[derive(Default)]
struct WatchedChanges {
    reached: u64,
    changes: BTreeMap<u64, String>,
}

/// Watches from where it was cut off until the server is gone, or until a version.
async fn watch(client: Client, mut watched: WatchedChanges, until: Option<u64>) -> WatchedChanges {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    while until.is_none_or(|until| watched.reached < until) {
        let params = WatchParams::default().timeout(5);
        let Ok(events) = maps.watch(&params, &watched.reached.to_string()).await else {
            return watched;
        };
        let mut events = std::pin::pin!(events);
        loop {
            let map = match events.try_next().await {
                Ok(Some(
                    WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map),
                )) => map,
                Ok(Some(WatchEvent::Bookmark(_))) => continue,
                Ok(Some(WatchEvent::Error(status))) => panic!("the watch was refused: {status:?}"),
                Ok(None) if until.is_some() => break,
                Ok(None) | Err(_) => return watched,
            };
            let version = map.resource_version().unwrap().parse().unwrap();
            assert!(version > watched.reached, "version {version} after {}", watched.reached);
            watched.reached = version;
            assert!(
                watched.changes.insert(version, map.name_any()).is_none(),
                "version {version} twice"
            );
            if until.is_some_and(|until| version >= until) {
                break;
            }
        }
    }
    watched
}

/// Numbers in a pseudo-random sequence. Where they differ each time, the names in the message of a failure are enough to understand it.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self(now.subsec_nanos().into())
    }

    /// Returns the same numbers for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // The increment and the mixing of splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn pick<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len() as u64) as usize]
    }

    fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
