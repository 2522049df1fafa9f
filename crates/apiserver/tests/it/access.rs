//! Authentication of clients, and the answers to unknown ones.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_apiserver::{ApiServer, Listening};

use crate::ephemeral;

/// Listens and gives the kubeconfig that was written, as a client reads it.
async fn listening(engine: &ApiServer) -> (Listening, Config) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let listening = engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    engine.write_kubeconfig(&path, &listening).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    (listening, config.unwrap())
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_connects_over_tls() {
    let engine = ephemeral().await;
    let (_listening, config) = listening(&engine).await;
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
    let names = namespaces.list(&ListParams::default()).await.unwrap();
    assert!(names.items.iter().any(|n| n.metadata.name.as_deref() == Some("default")));
}

#[tokio::test]
async fn without_the_token_every_path_answers_the_same() {
    let engine = ephemeral().await;
    let (_listening, mut config) = listening(&engine).await;
    for token in [None, Some("wrong".into())] {
        config.auth_info.token = token;
        let client = Client::try_from(config.clone()).unwrap();
        let mut answers = Vec::new();
        for path in
            ["/version", "/readyz", "/api/v1/namespaces/default", "/api/v1/nothing", "/nothing"]
        {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            match client.request_text(request).await {
                Err(kube::Error::Api(status)) => {
                    answers.push((status.code, status.message.clone()))
                }
                other => panic!("{path}: {other:?}"),
            }
        }
        answers.dedup();
        assert_eq!(answers, [(401, "Unauthorized".to_owned())]);
    }
}

#[tokio::test]
async fn thousands_of_idle_connections_do_not_block_a_client_with_the_token() {
    let engine = ephemeral().await;
    let (listening, config) = listening(&engine).await;
    let mut silent = Vec::new();
    // More than there may be connections at all.
    for _ in 0..4200 {
        silent.push(tokio::net::TcpStream::connect(listening.address()).await.unwrap());
    }
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config).unwrap());
    for _ in 0..3 {
        let all = ListParams::default();
        let listed = tokio::time::timeout(Duration::from_secs(60), namespaces.list(&all)).await;
        listed.expect("it gets in").unwrap();
        let more = tokio::net::TcpStream::connect(listening.address()).await.unwrap();
        silent.push(more);
    }
}

#[tokio::test]
async fn readiness_tells_of_a_task_that_ended_and_health_does_not() {
    let settings = crate::settings();
    let supervisor = settings.supervisor.clone();
    let engine = ApiServer::open(settings).await.unwrap();
    let get = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        engine.client().request_text(request).await
    };
    assert_eq!(get("/readyz").await.unwrap(), "ok");
    let _broken = supervisor.spawn_critical("broken", async { panic!("out of luck") });
    let ended = supervisor.ended().await;
    assert_eq!(ended.to_string(), "broken ended unexpectedly: it panicked: out of luck");
    let refused = get("/readyz").await.unwrap_err().to_string();
    assert!(refused.contains(&ended.to_string()), "{refused}");
    assert_eq!(get("/livez").await.unwrap(), "ok");
}

#[tokio::test]
async fn a_body_over_three_mebibytes_and_deep_json_are_refused() {
    let engine = ephemeral().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(engine.client());
    let mut large = ConfigMap::default();
    large.metadata.name = Some("large".to_owned());
    large.data = Some([("k".to_owned(), "x".repeat(3 << 20))].into());
    let refused = maps.create(&PostParams::default(), &large).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 413));
    for depth in [200, 1500, 100_000] {
        let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = format!(r#"{{"metadata":{{"name":"deep"}},"data":{lists}}}"#);
        for form in ["application/json", "application/yaml"] {
            let request = http::Request::post("/api/v1/namespaces/default/configmaps")
                .header("content-type", form)
                .body(deep.clone().into_bytes())
                .unwrap();
            let refused = engine.client().request_text(request).await;
            assert!(
                matches!(refused, Err(kube::Error::Api(status)) if status.code == 400),
                "{form} {depth}"
            );
        }
    }
}
