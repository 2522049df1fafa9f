//! An engine on a disk that is really full. Only root can mount a small one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use plimsoll_apiserver::{ApiServer, Settings};
use tower::ServiceExt as _;

/// A disk of a few megabytes.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(dir: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(dir.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

async fn readiness(engine: &ApiServer) -> (u16, String) {
    let request = http::Request::get("/readyz").body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = engine.service().oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&text).into_owned())
}

fn large(index: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("m{index}"));
    map.data = Some([("text".to_owned(), format!("{index:08}").repeat(12_000))].into());
    map
}

#[tokio::test]
async fn an_engine_on_a_full_disk_reports_it_and_continues_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        eprintln!("skipped: a small disk cannot be mounted here; that needs root");
        return;
    };
    let data = disk.0.join("data");
    let engine = ApiServer::open(Settings::in_directory(&data)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let first = maps.create(&PostParams::default(), &large(0)).await.unwrap();
    let mut written = vec![first.name_any()];
    let ballast = disk.0.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 64 << 10]).is_ok() {}
    drop(file);
    let refused = loop {
        match maps.create(&PostParams::default(), &large(written.len())).await {
            Ok(map) => written.push(map.name_any()),
            Err(kube::Error::Api(status)) => break status,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!((refused.code, refused.reason.as_str()), (503, "ServiceUnavailable"), "{refused:?}");
    let (code, text) = readiness(&engine).await;
    assert!(code == 500 && text.contains("No space left on device"), "{code} {text}");
    for name in &written {
        maps.get(name).await.expect("reading goes on");
    }
    std::fs::remove_file(&ballast).unwrap();
    for _ in 0..1200 {
        if readiness(&engine).await.0 == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(readiness(&engine).await, (200, "ok".to_owned()));
    let last = large(written.len());
    written.push(maps.create(&PostParams::default(), &last).await.unwrap().name_any());
    engine.stop();
    let engine = ApiServer::open(Settings::in_directory(&data)).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    for name in written {
        maps.get(&name).await.unwrap();
    }
}
