//! Images that a Docker Engine runs.
//!
//! A real one is used where `PLIMSOLL_TEST_DOCKER` names its socket and `PLIMSOLL_TEST_DOCKER_IMAGE` an image with a
//! shell. Everywhere, a stand-in that runs nothing checks what is asked of Docker, and in which order.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::AsyncReadExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::api::{DeleteParams, LogParams};
use kubelet::{Local, Settings};
use plimsoll_engine::{Engine, Settings as EngineSettings};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::{local, machine, states};

/// Returns the answers of Docker. Its one container writes a line, and ends when it gets a signal.
#[derive(Clone)]
struct StandIn {
    asked: Arc<Mutex<Vec<String>>>,
    created: Arc<Mutex<Value>>,
    /// The containers that are there at the start, and their marks.
    left: Arc<Mutex<Vec<(&'static str, String)>>>,
    signal: watch::Sender<Option<i64>>,
}

impl StandIn {
    fn start(socket: &Path) -> Self {
        let stand_in = Self {
            asked: Arc::default(),
            created: Arc::default(),
            left: Arc::default(),
            signal: watch::Sender::new(None),
        };
        let listener = UnixListener::bind(socket).unwrap();
        let answering = stand_in.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answering = answering.clone();
                let service = service_fn(move |request| answering.clone().answer(request));
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        stand_in
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let action = path.rsplit('/').next().unwrap_or_default().to_owned();
        let asked = if action == "kill" {
            format!("kill {query}")
        } else {
            format!("{} {action}", request.method())
        };
        self.asked.lock().unwrap().push(asked);
        let body = request.into_body().collect().await?.to_bytes();
        let (code, answer) = match action.as_str() {
            "version" => {
                (200, json!({"ApiVersion": "1.41", "MinAPIVersion": "1.12"}).to_string().into())
            }
            "json" => {
                let left = self.left.lock().unwrap();
                let left = left
                    .iter()
                    .map(|(id, mark)| json!({"Id": id, "Labels": {"plimsoll.dev/run": mark}}));
                (200, Value::from_iter(left).to_string().into())
            }
            "create" => {
                *self.created.lock().unwrap() = serde_json::from_slice(&body).unwrap();
                (201, json!({"Id": "c1", "Warnings": []}).to_string().into())
            }
            "logs" => (200, Bytes::from_static(b"\x01\0\0\0\0\0\0\x06hello\n")),
            "wait" => {
                let code = *self.signal.subscribe().wait_for(Option::is_some).await.unwrap();
                (200, json!({"StatusCode": code.unwrap()}).to_string().into())
            }
            "kill" => {
                self.signal.send_replace(Some(if query.contains("SIGTERM") { 143 } else { 137 }));
                (204, Bytes::new())
            }
            _ => (204, Bytes::new()),
        };
        Ok(Response::builder().status(code).body(Full::new(answer)).unwrap())
    }
}

#[tokio::test]
async fn docker_is_asked_to_create_start_signal_and_remove() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("docker.sock");
    let docker = StandIn::start(&socket);
    let machine = machine(Local { docker: Some(socket), ..local() }).await;
    assert!(machine.runtime.has_docker());
    let container = json!({
        "name": "c", "image": "example.com/game:1", "args": ["-x", "$(A)"], "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 7654, "hostPort": 7654, "protocol": "UDP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": true}],
    });
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    let spec = json!({"restartPolicy": "Never", "containers": [container], "volumes": volumes});
    machine.create("a", spec).await;
    machine.until_phase("a", "Running").await;
    while machine.logs("a").await != "hello\n" {
        tokio::task::yield_now().await;
    }
    let created = docker.created.lock().unwrap().clone();
    assert_eq!(
        (&created["Image"], &created["Cmd"]),
        (&json!("example.com/game:1"), &json!(["-x", "1"]))
    );
    assert_eq!(created["HostConfig"]["NetworkMode"], "host");
    let mount = &created["HostConfig"]["Mounts"][0];
    assert_eq!(
        (&mount["Type"], &mount["Target"], &mount["ReadOnly"]),
        (&json!("bind"), &json!("/data"), &json!(true))
    );
    let volume = Path::new(mount["Source"].as_str().unwrap());
    assert!(volume.is_dir());
    let env: Vec<&str> =
        created["Env"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(env.contains(&"A=1") && env.contains(&"PORT=7654"), "{env:?}");
    assert!(!env.iter().any(|v| v.starts_with("PATH=")), "the image has its own: {env:?}");
    machine.pods().delete("a", &DeleteParams::default()).await.unwrap();
    machine.until_gone("a").await;
    assert!(!volume.exists(), "the volume is removed with the pod");
    let asked = docker.asked.lock().unwrap().clone();
    let at = |what: &str| {
        asked.iter().position(|a| a == what).unwrap_or_else(|| panic!("{what}: {asked:?}"))
    };
    assert!(at("POST create") < at("POST start"));
    assert!(
        at("POST start") < at("kill signal=SIGTERM") && at("kill signal=SIGTERM") < at("DELETE c1")
    );
}

#[tokio::test]
async fn a_container_of_another_data_directory_is_left_alone_and_one_of_this_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (data, socket) = (dir.path().join("data"), dir.path().join("docker.sock"));
    let docker = StandIn::start(&socket);
    let engine = Engine::open(EngineSettings::in_directory(&data)).await.unwrap();
    let identity = std::fs::read_to_string(data.join("identity")).unwrap();
    let identity = identity.split_whitespace().next().unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    let mark = |identity: &str, boot: &str| format!("{identity}/{boot}/{}/1", std::process::id());
    *docker.left.lock().unwrap() = vec![
        ("left", mark(identity, boot)),
        ("before-the-boot", mark(identity, "another")),
        ("foreign", mark("another", boot)),
        ("old", "1-1".to_owned()),
        ("unknown", "x".to_owned()),
    ];
    let local = Local { docker: Some(socket), ..local() };
    let settings = Settings { local: Some(local), simulated: None };
    let _runtime = engine.run(settings).await.unwrap();
    let asked = docker.asked.lock().unwrap().clone();
    let removed: Vec<_> = asked.iter().filter_map(|a| a.strip_prefix("DELETE ")).collect();
    assert_eq!(removed, ["left", "before-the-boot"]);
}

/// Returns the real engine's socket and an image; `None`, with a line saying what is missing, where there is none.
pub(crate) fn real() -> Option<(PathBuf, String)> {
    let variable = |name: &str| std::env::var(name).ok();
    let given = variable("PLIMSOLL_TEST_DOCKER").zip(variable("PLIMSOLL_TEST_DOCKER_IMAGE"));
    if given.is_none() {
        let missing = "skipped: no Docker Engine; run `cargo xtask test`, or set PLIMSOLL_TEST_DOCKER and PLIMSOLL_TEST_DOCKER_IMAGE";
        assert!(variable("CI").is_none(), "{missing}");
        eprintln!("{missing}");
    }
    given.map(|(socket, image)| (PathBuf::from(socket), image))
}

#[tokio::test]
async fn a_real_docker_runs_an_image_to_its_end() {
    let Some((socket, image)) = real() else { return };
    let machine = machine(Local { docker: Some(socket), ..local() }).await;
    let container = json!({"name": "c", "image": image, "args": ["sh", "-c", "echo $WHO; exit 3"], "env": [{"name": "WHO", "value": "me"}]});
    machine.create("a", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let ended = machine.until_phase("a", "Failed").await;
    assert_eq!(states(&ended)["c"], (Some(3), 0));
    assert_eq!(machine.logs("a").await, "me\n");
}

#[tokio::test]
async fn a_real_docker_lets_a_container_say_goodbye() {
    let Some((socket, image)) = real() else { return };
    let machine = machine(Local { docker: Some(socket), ..local() }).await;
    let play = "trap 'echo bye; exit 0' TERM; echo hello; sleep 1000 & wait";
    let container = json!({"name": "c", "image": image, "command": ["sh", "-c", play]});
    machine.create("a", json!({"restartPolicy": "Never", "containers": [container]})).await;
    machine.until_phase("a", "Running").await;
    while machine.logs("a").await != "hello\n" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let followed = LogParams { follow: true, ..LogParams::default() };
    let mut lines = machine.pods().log_stream("a", &followed).await.unwrap();
    machine.pods().delete("a", &DeleteParams::default()).await.unwrap();
    let mut output = String::new();
    lines.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "hello\nbye\n");
    machine.until_gone("a").await;
}

#[tokio::test]
async fn a_real_docker_runs_hooks_inside_the_container() {
    let Some((socket, image)) = real() else { return };
    let machine = machine(Local { docker: Some(socket), ..local() }).await;
    let wait = "while ! test -f /hooked; do sleep 0.1; done; cat /hooked";
    let hook = json!({"exec": {"command": ["sh", "-c", "echo hooked > /hooked.new; mv /hooked.new /hooked"]}});
    let container = json!({
        "name": "c", "image": image, "args": ["sh", "-c", wait], "lifecycle": {"postStart": hook},
    });
    machine.create("a", json!({"restartPolicy": "Never", "containers": [container]})).await;
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "hooked\n");
}
