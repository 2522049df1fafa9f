//! The local stand-in: its file, and conformance tests of clients.

use std::path::Path;
use std::time::Duration;

use super::rest::curl;
use super::sdk_servers::{self, NEVER};
use crate::plimsoll;

const FILE: &str = "
apiVersion: agones.dev/v1
kind: GameServer
metadata: {name: mine, labels: {map: desert}}
spec:
  counters: {rooms: {count: 2, capacity: 5}}
status: {state: Scheduled, address: 192.0.2.9}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_the_game_server_and_is_read_again_however_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gameserver.yaml");
    std::fs::write(&path, FILE).unwrap();
    let server = sdk_servers::local(&["-f", path.to_str().unwrap()]);
    let mut sdk = server.client().await;
    let server = sdk.get_gameserver().await.unwrap();
    assert_eq!(server.object_meta.unwrap().name, "mine");
    assert_eq!(sdk.beta().clone().get_counter_count("rooms").await.unwrap(), 2, "from the spec");
    let mut watch = sdk.watch_gameserver().await.unwrap();
    let mut hears = async |map: &str| {
        let heard = async {
            loop {
                let meta = watch.message().await.unwrap().unwrap().object_meta.unwrap();
                if meta.labels["map"] == map {
                    return;
                }
            }
        };
        tokio::time::timeout(NEVER, heard).await.unwrap_or_else(|_| panic!("never heard of {map}"));
    };
    hears("desert").await;
    std::fs::write(&path, FILE.replace("desert", "forest")).unwrap();
    hears("forest").await;
    // As editors do it.
    let new = dir.path().join("new");
    std::fs::write(&new, FILE.replace("desert", "island")).unwrap();
    std::fs::rename(&new, &path).unwrap();
    hears("island").await;
    std::fs::write(&path, "{ not: [yaml").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(sdk.get_gameserver().await.is_ok(), "the last good one stays");
}

#[test]
fn a_file_that_is_no_game_server_is_refused_with_the_reason() {
    for (text, reason) in [
        ("[1, 2]", "expected an object"),
        ("{a: [", "neither YAML nor JSON"),
        ("spec: {health: {periodSeconds: soon}}", "spec.health.periodSeconds"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        let refused = refused_with(file.path());
        assert!(refused.contains(reason), "{text}: {refused}");
    }
    assert!(refused_with(Path::new("/nowhere/at/all")).contains("could not read /nowhere/at/all"));
}

fn refused_with(file: &Path) -> String {
    let mut command = plimsoll();
    command.args(["sdk-server", "--local", "--grpc-port", "0", "--http-port", "0", "-f"]).arg(file);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    String::from_utf8(done.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conformance_test_passes_when_exactly_the_expected_calls_came() {
    for (expected, code) in [("ready,health", 0), ("ready", 1), ("ready,health,allocate", 1)] {
        let server = sdk_servers::local(&["--test", expected, "--sdk-name", "curl"]);
        curl(&server, "POST", "/ready", "{}").await;
        curl(&server, "POST", "/health", "{}").await;
        curl(&server, "POST", "/health", "{}").await;
        assert_eq!(server.end(), Some(code), "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conformance_test_ends_by_itself() {
    let server = sdk_servers::local(&["--test", "ready", "--timeout", "1"]);
    curl(&server, "POST", "/ready", "{}").await;
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_sidecar_without_a_name_says_what_is_missing() {
    let mut command = plimsoll();
    let done = command.arg("sdk-server").env_remove("GAMESERVER_NAME").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.contains("--gameserver-name (GAMESERVER_NAME) is required"), "{stderr}");
}
