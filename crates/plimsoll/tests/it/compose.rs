//! The example of a compose service that grows under CPU load and shrinks after it, on a real Docker Engine.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use api::plimsoll::ScalingPolicy;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use serde_json::{Value, json};

use crate::from_env;
use crate::laptop::{Laptop, until};

/// Uses a core while the file `/load/busy` exists.
const SCRIPT: &str = "while :; do if [ -e /load/busy ]; then i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; else sleep 1; fi; done";

/// The engine's API, for what a test prepares and checks. The containers of the test are removed when this is dropped.
struct Engine {
    socket: PathBuf,
    project: String,
}

impl Engine {
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

    /// Returns the names of the project's containers.
    fn names(&self) -> Vec<String> {
        let label = format!("com.docker.compose.project={}", self.project);
        let filters = format!("%7B%22label%22%3A%5B%22{label}%22%5D%7D");
        let path = format!("/containers/json?all=true&filters={filters}");
        let (_, found) = self.request("GET", &path, &Value::Null);
        let name = |container: &Value| container["Names"][0].as_str().map(str::to_owned);
        let mut names: Vec<_> = found.as_array().unwrap().iter().filter_map(name).collect();
        names.sort();
        names
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
    let (Some(socket), Some(image)) =
        (from_env("PLIMSOLL_TEST_DOCKER"), from_env("PLIMSOLL_TEST_DOCKER_IMAGE"))
    else {
        return;
    };
    let load = tempfile::tempdir().unwrap();
    let project = format!("plimsollshop{}", std::process::id());
    let engine = Engine { socket, project };
    engine.start(image.to_str().unwrap(), load.path());
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
    std::fs::write(load.path().join("busy"), "").unwrap();
    until("there are three containers", async || engine.has(3)).await;
    std::fs::remove_file(load.path().join("busy")).unwrap();
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
