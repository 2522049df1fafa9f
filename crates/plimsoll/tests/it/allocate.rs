//! `plimsoll allocate`, against an engine with an allocator on it.

use std::path::{Path, PathBuf};
use std::process::Output;

use cluster::Caches;
use engine::{Delegate, Engine, Settings};
use http_body_util::{BodyExt as _, Full};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use process::Random;
use serde_json::json;
use serve::allocator::{self, Allocator};
use tower::{BoxError, service_fn};

use crate::plimsoll;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_printed_with_their_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    for (name, mode) in [("party-a", "ranked"), ("party-b", "ranked"), ("party-long-c", "casual")] {
        ready(&engine, name, mode).await;
    }
    delegate(&engine).await;
    let listening = engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    engine.write_kubeconfig(&kubeconfig, &listening).unwrap();

    let done = run(&kubeconfig, &["party", "--selector", "mode=casual"]).await;
    let printed =
        "NAME           ADDRESS    PORTS\nparty-long-c   10.0.0.1   game:7000,query:7001\n";
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), printed);

    let done = run(&kubeconfig, &["party", "--count", "3", "-o", "json"]).await;
    let answers: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let names: Vec<_> =
        answers["allocations"].as_array().unwrap().iter().map(|a| &a["gameServerName"]).collect();
    assert_eq!(names, ["party-a", "party-b"]);
    assert_eq!(done.status.code(), Some(1), "there were only two");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        stderr.contains("fleet party: allocated 2 of 3; no other matching game server is Ready"),
        "{stderr}"
    );

    let done = run(&kubeconfig, &["party", "--selector", "mode"]).await;
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(stderr.contains("expected KEY=VALUE"), "{stderr}");
}

async fn run(kubeconfig: &Path, args: &[&str]) -> Output {
    let kubeconfig = PathBuf::from(kubeconfig);
    let mut command = plimsoll();
    command.arg("allocate").args(args).arg("--kubeconfig").arg(kubeconfig);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

async fn ready(engine: &Engine, name: &str, mode: &str) {
    let resource = ApiResource::erase::<api::agones::GameServer>(&());
    let servers: Api<DynamicObject> = Api::default_namespaced_with(engine.client(), &resource);
    let server = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": name, "labels": {"agones.dev/fleet": "party", "mode": mode}},
        "spec": {"template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}}},
        "status": {"state": "Ready", "address": "10.0.0.1", "ports": [{"name": "game", "port": 7000}, {"name": "query", "port": 7001}]},
    });
    servers.create(&PostParams::default(), &serde_json::from_value(server).unwrap()).await.unwrap();
}

/// Lets an allocator answer for its group, as `plimsoll up` does.
async fn delegate(engine: &Engine) {
    let (client, caches) = (engine.client(), Caches::new(None, true));
    let (kinds, random) = (allocator::REQUIRED_KINDS.into(), Random::system());
    let settings = allocator::Settings::default();
    let following = caches.follow(&client, &kinds, &random, &settings.supervisor);
    let allocator = Allocator::start(client, caches, settings).await;
    // The service lives as long as the engine.
    let following = std::sync::Arc::new(following);
    let service = service_fn(move |request: http::Request<Full<bytes::Bytes>>| {
        let (allocator, _following) = (allocator.clone(), following.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let request = http::Request::from_parts(parts, body);
            let answer = allocator::kubernetes::handle(&allocator, request).await;
            Ok::<_, BoxError>(answer.map(|body| Full::new(body).boxed_unsync()))
        }
    });
    engine.delegate("allocation.agones.dev", "v1", Delegate::new(service));
}
