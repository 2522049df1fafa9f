//! The number of writes per game server.

use api::agones::Fleet;
use tokio::task::JoinSet;

use crate::client;
use crate::cluster::{Cluster, fleet};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_writes_take_a_server_from_its_creation_to_ready() {
    let cluster = Cluster::embedded().await;
    let (counting, writes) = client::counted(cluster.client.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(counting, cluster.settings(), std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 20)).await;
    cluster.settles("f", 20, 0).await;
    let writes = writes.lock().unwrap().clone();
    assert_eq!((writes["POST gameservers"], writes["POST pods"]), (20, 20));
    // Scheduled and Ready; the fifth write is the SDK server's. Where the game was faster than we, one write is both.
    assert!(writes["PATCH gameservers"] <= 40, "{writes:?}");
    assert!(
        !writes.contains_key("PATCH pods") && !writes.contains_key("DELETE pods"),
        "{writes:?}"
    );
}
