//! The source and the target `docker` on a real Docker Engine, with containers labelled as compose labels them.

use std::time::Duration;

use plimsoll_connect::sources::Answer;
use plimsoll_connect::targets::{self, TargetError};
use serde_json::{Value, json};

use crate::real::{ask_about, open, stand_in, target, value, variable};

/// The engine's API, for what a test prepares and checks.
struct Engine {
    client: reqwest::Client,
    image: String,
    project: String,
}

impl Engine {
    fn find() -> Option<(Self, String)> {
        let (socket, image) =
            (variable("PLIMSOLL_TEST_DOCKER")?, variable("PLIMSOLL_TEST_DOCKER_IMAGE")?);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .unix_socket(socket.as_str())
            .tls_certs_only([])
            .build()
            .unwrap();
        let project = format!("plimsoll{}", std::process::id());
        Some((Self { client, image, project }, format!("unix://{socket}")))
    }

    async fn create(&self, name: &str, service: &str, host_config: Value, script: &str) {
        let labels = json!({
            "com.docker.compose.project": self.project, "com.docker.compose.service": service,
            "com.docker.compose.container-number": "1", "com.docker.compose.oneoff": "False",
            "com.docker.compose.config-hash": "h",
        });
        let body = json!({"Image": self.image, "Cmd": ["sh", "-c", script], "Labels": labels, "HostConfig": host_config, "StopTimeout": 1});
        let url = format!("http://docker/containers/create?name={name}");
        let created = self
            .client
            .post(url)
            .body(body.to_string())
            .header("content-type", "application/json")
            .send()
            .await
            .unwrap();
        let created: Value = serde_json::from_slice(&created.bytes().await.unwrap()).unwrap();
        let id = created["Id"].as_str().unwrap_or_else(|| panic!("{created}"));
        let started =
            self.client.post(format!("http://docker/containers/{id}/start")).send().await.unwrap();
        assert!(started.status().is_success(), "{:?}", started.text().await);
    }

    /// Returns the containers of this test by name, with their number.
    async fn containers(&self) -> Vec<(String, String)> {
        let filters =
            json!({"label": [format!("com.docker.compose.project={}", self.project)]}).to_string();
        let mut url: reqwest::Url = "http://docker/containers/json?all=true".parse().unwrap();
        url.query_pairs_mut().append_pair("filters", &filters);
        let found = self.client.get(url).send().await.unwrap().bytes().await.unwrap();
        let found: Vec<Value> = serde_json::from_slice(&found).unwrap();
        let name = |container: &Value| {
            container["Names"][0].as_str().unwrap().trim_start_matches('/').to_owned()
        };
        let number = |container: &Value| {
            container["Labels"]["com.docker.compose.container-number"].as_str().unwrap().to_owned()
        };
        let mut found: Vec<_> =
            found.iter().map(|container| (name(container), number(container))).collect();
        found.sort();
        found
    }

    async fn remove_all(&self) {
        for (name, _) in self.containers().await {
            let url = format!("http://docker/containers/{name}?force=true&v=true");
            let _ = self.client.delete(url).send().await;
        }
    }
}

/// Serves the MetricSource with the engine's address.
async fn cluster(host: &str) -> (crate::server::Server, plimsoll_connect::Context) {
    let source = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": "docker"},
        "spec": {"docker": {"host": host}},
    });
    let path = "/apis/plimsoll.dev/v1alpha1/metricsources/docker";
    stand_in(
        axum::Router::new()
            .route(path, axum::routing::get(move || async move { axum::Json(source) })),
    )
    .await
}

#[tokio::test]
async fn a_compose_service_is_measured_and_scaled_as_compose_does_it() {
    let Some((engine, host)) = Engine::find() else { return };
    let (project, none) =
        (engine.project.clone(), json!({"NetworkMode": "none", "Memory": 64 << 20}));
    let outcome = tokio::spawn(async move {
        engine
            .create(&format!("{project}-web-1"), "web", none.clone(), "while :; do :; done")
            .await;
        engine.create("frontdoor", "named", none, "sleep 600").await;
        let (_server, context) = cluster(&host).await;
        let docker = |service: &str| json!({"docker": {"project": project, "service": service}});
        let web =
            targets::open(&context, &target(docker("web"))).map_err(|err| err.to_string()).unwrap();

        let source = open(&context, json!({"docker": {"host": host}}));
        let about = |service: &str| Some(target(docker(service)));
        // It gets less than its core where other programs want it, too.
        let busy = value(&ask_about(&*source, "cpu", about("web")).await);
        assert!(busy > 1.0 && busy < 200.0, "a core is wanted: {busy} %");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let busy = value(&ask_about(&*source, "cpu", about("web")).await);
        assert!(busy > 1.0 && busy < 200.0, "by the reading before: {busy} %");
        let memory = value(&ask_about(&*source, "memory", about("web")).await);
        assert!(memory > 0.0 && memory < 100.0, "{memory} %");
        let idle = value(&ask_about(&*source, "cpu", about("named")).await);
        assert!(idle < busy / 5.0, "{idle} % of {busy} %");
        assert_eq!(ask_about(&*source, "cpu", about("none")).await, Ok(Answer::NoData));

        let status = web.status().await.unwrap();
        assert_eq!((status.count, status.ready), (1, 1));
        web.scale(3, &status.version).await.unwrap();
        let named = |numbers: &[u32]| {
            let mut all: Vec<_> =
                numbers.iter().map(|n| (format!("{project}-web-{n}"), n.to_string())).collect();
            all.insert(0, ("frontdoor".to_owned(), "1".to_owned()));
            all
        };
        assert_eq!(engine.containers().await, named(&[1, 2, 3]));
        let stale = web.scale(5, &status.version).await.unwrap_err();
        assert!(matches!(stale, TargetError::Conflict { .. }), "{stale}");
        let status = web.status().await.unwrap();
        assert_eq!((status.count, status.ready), (3, 3));
        web.scale(2, &status.version).await.unwrap();
        assert_eq!(engine.containers().await, named(&[1, 2]), "the highest number goes");
        let status = web.status().await.unwrap();
        let nothing = web.scale(0, &status.version).await.unwrap_err();
        assert!(matches!(nothing, TargetError::Refused { .. }), "{nothing}");

        let named = targets::open(&context, &target(docker("named")))
            .map_err(|err| err.to_string())
            .unwrap();
        let status = named.status().await.unwrap();
        let refused = named.scale(2, &status.version).await.unwrap_err().to_string();
        assert!(refused.contains("container_name is set to `frontdoor`"), "{refused}");
    })
    .await;
    let (engine, _) = Engine::find().unwrap();
    engine.remove_all().await;
    outcome.unwrap();
}

#[tokio::test]
async fn an_engine_that_is_down_is_an_error() {
    let host = "unix:///nonexistent/docker.sock";
    let (_server, context) = cluster(host).await;
    let web = json!({"docker": {"service": "web"}});
    let source = open(&context, json!({"docker": {"host": host}}));
    let down = ask_about(&*source, "cpu", Some(target(web.clone()))).await.unwrap_err();
    assert!(down.starts_with("could not reach unix:///nonexistent/docker.sock"), "{down}");
    let web = targets::open(&context, &target(web)).map_err(|err| err.to_string()).unwrap();
    let down = web.status().await.unwrap_err();
    assert!(matches!(down, TargetError::Unavailable { .. }), "{down}");
}
