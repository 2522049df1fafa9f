//! The example of a compose service that grows under CPU load and shrinks after it, on a real Docker Engine. Its first container is created
//! as Docker Compose does it, and in the long run of the tests by Docker Compose itself, with the command of the guide.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use api::plimsoll::ScalingPolicy;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use serde_json::{Value, json};

use crate::laptop::{Laptop, until};
use crate::{from_env, guide};

/// Uses a core while the file `/load/busy` exists.
const SCRIPT: &str = "while :; do if [ -e /load/busy ]; then i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; else sleep 1; fi; done";

/// The engine's API, for what a test prepares and checks. The containers of the test are removed when this is dropped.
struct Engine {
    socket: PathBuf,
    project: String,
}

impl Engine {
    /// Returns the engine of the tests with its image, and a project that no other test has.
    fn find(project: &str) -> Option<(Self, String)> {
        let socket = from_env("PLIMSOLL_TEST_DOCKER")?;
        let image = from_env("PLIMSOLL_TEST_DOCKER_IMAGE")?;
        let project = format!("{project}{}", std::process::id());
        Some((Self { socket, project }, image.to_str().unwrap().to_owned()))
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Creates and starts the first container, as `docker compose up` does.
    fn start(&self, image: &str, load: &Path) {
        let labels = json!({
            "com.docker.compose.project": self.project, "com.docker.compose.service": "web",
            "com.docker.compose.container-number": "1", "com.docker.compose.oneoff": "False",
            "com.docker.compose.config-hash": "h",
        });
        let binds = [format!("{}:/load:ro", load.display())];
        let body = json!({
            "Image": image, "Cmd": ["sh", "-c", SCRIPT], "Labels": labels, "StopTimeout": 1,
            "HostConfig": {"NetworkMode": "none", "Binds": binds, "NanoCpus": 500_000_000},
        });
        let path = format!("/containers/create?name={}-web-1", self.project);
        let (status, created) = self.request("POST", &path, &body);
        assert_eq!(status, 201, "{created}");
        let path = format!("/containers/{}/start", created["Id"].as_str().unwrap());
        let (status, started) = self.request("POST", &path, &Value::Null);
        assert_eq!(status, 204, "{started}");
    }

    /// Returns the containers of the project.
    fn containers(&self) -> Vec<Value> {
        let label = format!("com.docker.compose.project={}", self.project);
        let filters = format!("%7B%22label%22%3A%5B%22{label}%22%5D%7D");
        let path = format!("/containers/json?all=true&filters={filters}");
        let (_, found) = self.request("GET", &path, &Value::Null);
        found.as_array().unwrap().clone()
    }

    /// Returns the names of the project's containers.
    fn names(&self) -> Vec<String> {
        let name = |container: &Value| container["Names"][0].as_str().map(str::to_owned);
        let mut names: Vec<_> = self.containers().iter().filter_map(name).collect();
        names.sort();
        names
    }

    /// Returns the ids of the project's containers.
    fn ids(&self) -> Vec<String> {
        let id = |container: &Value| container["Id"].as_str().unwrap().to_owned();
        let mut ids: Vec<_> = self.containers().iter().map(id).collect();
        ids.sort();
        ids
    }

    fn has(&self, count: usize) -> bool {
        let numbered = (1..=count).map(|number| format!("/{}-web-{number}", self.project));
        self.names() == numbered.collect::<Vec<_>>()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A test that fails because the engine is down has nothing to remove.
        if UnixStream::connect(&self.socket).is_err() {
            return;
        }
        for name in self.names() {
            self.request("DELETE", &format!("/containers{name}?force=true&v=true"), &Value::Null);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compose_service_grows_under_real_load_and_shrinks_after_it() {
    let Some((engine, image)) = Engine::find("plimsollshop") else { return };
    let load = tempfile::tempdir().unwrap();
    engine.start(&image, load.path());
    grows_and_shrinks(&engine, load.path(), || ()).await;
}

/// Docker Compose, in a folder with the file of a project.
struct Compose {
    folder: tempfile::TempDir,
    socket: PathBuf,
}

impl Compose {
    /// Installs the plugin for a test, and writes the file of the project.
    fn new(plugin: &Path, engine: &Engine, image: &str, load: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("cli-plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::os::unix::fs::symlink(plugin, plugins.join("docker-compose")).unwrap();
        let file = json!({"services": {"web": {
            "image": image, "command": ["sh", "-c", SCRIPT.replace('$', "$$")], "network_mode": "none", "cpus": 0.5,
            "stop_grace_period": "1s", "volumes": [format!("{}:/load:ro", load.display())],
        }}});
        std::fs::write(folder.path().join("compose.yaml"), file.to_string()).unwrap();
        Self { folder, socket: engine.socket.clone() }
    }

    /// Types a line, which must succeed, and returns what it prints.
    fn types(&self, line: &str) -> String {
        let done = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.folder.path())
            .env("DOCKER_HOST", format!("unix://{}", self.socket.display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{line}: {text}");
        text
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_docker_compose_has_started_does_the_same() {
    // Set by `cargo xtask test --all`.
    if std::env::var_os("PLIMSOLL_TEST_SLOW").is_none() {
        return;
    }
    let Some(plugin) = from_env("PLIMSOLL_TEST_COMPOSE") else { return };
    let Some((engine, image)) = Engine::find("plimsollpage") else { return };
    let page = std::fs::read_to_string(crate::root().join("docs/guide/services.md")).unwrap();
    let commands = guide::commands(guide::section(&page, "With Docker Compose"));
    let [start, _up] = &commands[..] else { panic!("{commands:?}") };
    assert!(start.starts_with("docker compose ") && start.contains(" shop "), "{start}");
    let load = tempfile::tempdir().unwrap();
    let compose = Compose::new(&plugin, &engine, &image, load.path());
    let start = start.replace(" shop ", &format!(" {} ", engine.project));
    compose.types(&start);
    grows_and_shrinks(&engine, load.path(), || {
        // Compose takes the new containers for its own: with their number it has nothing to create, and nothing to replace.
        let before = engine.ids();
        compose.types(&format!("{start} --scale web=3"));
        assert_eq!(engine.ids(), before, "compose replaces containers");
    })
    .await;
    compose.types(&start.replace("up --detach", "down --timeout 1"));
    assert!(engine.names().is_empty(), "{:?}", engine.names());
}

/// Lets a service of one container grow to three and shrink again. `grown` is called in between.
async fn grows_and_shrinks(engine: &Engine, load: &Path, grown: impl FnOnce()) {
    let source = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": "docker"},
        "spec": {"docker": {"host": format!("unix://{}", engine.socket.display())}},
    });
    let laptop = Laptop::start_with("compose-service.yaml", |text| {
        // On a busy machine a container does not get half a core, and an idle one takes longer to do nothing.
        let text = text.replace("project: shop", &format!("project: {}", engine.project));
        let text = text.replace("cpu >= 60%", "cpu >= 8%").replace("cpu <= 20%", "cpu <= 5%");
        format!("{text}---\n{source}\n")
    });
    let client = laptop.client().await;
    let policies: Api<ScalingPolicy> = Api::default_namespaced(client.clone());
    until("the policy measures the service", async || {
        let policy = policies.get_opt("shop-web").await.unwrap().and_then(|policy| policy.status);
        let conditions = policy.map(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "ScalingActive" && c.status == "True")
    })
    .await;
    assert!(engine.has(1), "{:?}", engine.names());
    std::fs::write(load.join("busy"), "").unwrap();
    until("there are three containers", async || engine.has(3)).await;
    grown();
    std::fs::remove_file(load.join("busy")).unwrap();
    until("there is one container", async || engine.has(1)).await;
    let events: Api<Event> = Api::default_namespaced(client);
    let events = events.list(&Default::default()).await.unwrap();
    let messages: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("SuccessfulRescale"))
        .filter_map(|event| event.message.as_deref())
        .collect();
    let wanted =
        ["scaled from 1 to 2", "scaled from 2 to 3", "scaled from 3 to 2", "scaled from 2 to 1"];
    for step in wanted {
        assert!(messages.iter().any(|message| message.starts_with(step)), "{step}: {messages:?}");
    }
}
