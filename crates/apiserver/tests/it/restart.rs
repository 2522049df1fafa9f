//! Restarts: objects, versions and watches continue, and a foreign or newer directory is refused.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use plimsoll_apiserver::{ApiServer, OpenError, Settings, StoreError};

async fn fill(dir: &Path) {
    let engine = ApiServer::open(Settings::in_directory(dir)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    for index in 0..50 {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("m{index}"));
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

/// Counts what `fill` made.
fn ours(maps: &[ConfigMap]) -> usize {
    maps.iter().filter(|map| map.metadata.name.as_ref().is_some_and(|n| n.starts_with('m'))).count()
}

#[tokio::test]
async fn objects_and_versions_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let list = maps.list(&Default::default()).await.unwrap();
    assert_eq!(ours(&list.items), 50);
    let newest = list.items.iter().map(|m| m.metadata.resource_version.clone().unwrap());
    let newest: u64 = newest.map(|v| v.parse().unwrap()).max().unwrap();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("later".to_owned());
    let later = maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(later.metadata.resource_version.unwrap().parse::<u64>().unwrap() > newest);
}

#[tokio::test]
async fn a_second_engine_on_the_same_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let second = ApiServer::open(Settings::in_directory(dir.path())).await;
    assert!(matches!(second, Err(OpenError::Store(StoreError::InUse(_)))));
    first.stop();
    ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_refused_or_whole_and_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let path = dir.path().join("objects.redb");
    let sound = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for step in 0..64 {
        let mut damaged = sound.clone();
        let at = step * sound.len() / 64;
        let end = (at + 64).min(damaged.len());
        damaged[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, &damaged).unwrap();
        match ApiServer::open(Settings::in_directory(dir.path())).await {
            Ok(engine) => {
                let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
                assert_eq!(ours(&maps.list(&Default::default()).await.unwrap().items), 50);
            }
            Err(OpenError::Store(StoreError::Damaged { .. })) => {
                refused += 1;
                assert_eq!(std::fs::read(&path).unwrap(), damaged, "it was left as it is");
            }
            Err(other) => panic!("at {at}: {other}"),
        }
    }
    assert!(refused > 0, "some damage was noticed");
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.redb");
    std::fs::write(&path, "something else").unwrap();
    let opened = ApiServer::open(Settings::in_directory(dir.path())).await;
    assert!(matches!(opened, Err(OpenError::Store(StoreError::Damaged { .. }))));
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

#[tokio::test]
async fn the_data_directory_and_its_content_become_private() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(ApiServer::open(Settings::in_directory(&data)).await.unwrap());
    std::fs::create_dir(data.join("logs")).unwrap();
    std::fs::write(data.join("logs/server"), "hello").unwrap();
    std::fs::write(data.join("kubeconfig"), "secret").unwrap();
    for path in everything(&data) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    let _engine = ApiServer::open(Settings::in_directory(&data)).await.unwrap();
    for path in everything(&data) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}", path.display());
    }
}

#[tokio::test]
async fn a_new_data_directory_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("made/data");
    let _engine = ApiServer::open(Settings::in_directory(&data)).await.unwrap();
    let all = everything(&data);
    assert!(all.len() > 4, "{all:?}");
    for path in all {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}", path.display());
    }
}

/// Lists a directory and all that is in it.
fn everything(dir: &Path) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(dir).unwrap().flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { everything(&path) } else { vec![path] }
    });
    std::iter::once(dir.to_owned()).chain(inside).collect()
}
