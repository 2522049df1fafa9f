//! Host ports and sidecar resources of game servers, as arguments and as Agones' environment variables.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plimsoll;

const SERVERS: &str = "
apiVersion: agones.dev/v1
kind: GameServer
metadata: {name: usual}
spec:
  ports: [{name: game, containerPort: 7654}]
  template: {spec: {containers: [{name: game, image: game}]}}
---
apiVersion: agones.dev/v1
kind: GameServer
metadata: {name: special}
spec:
  ports: [{name: game, range: game, containerPort: 7654}]
  template: {spec: {containers: [{name: game, image: game}]}}
";

/// The environment of an Agones controller.
const AGONES: [(&str, &str); 5] = [
    ("MIN_PORT", "21000"),
    ("MAX_PORT", "21010"),
    ("ADDITIONAL_PORT_RANGES", r#"{"game": [22000, 22000]}"#),
    ("SIDECAR_CPU_REQUEST", "30m"),
    ("SIDECAR_MEMORY_LIMIT", "64Mi"),
];

#[test]
fn game_servers_get_ports_of_the_ranges_and_sidecars_their_resources() {
    for (flags, env) in [
        (
            &[
                "--port-range=21000-21010",
                "--port-range=game=22000-22000",
                "--sidecar-cpu-request=30m",
                "--sidecar-memory-limit=64Mi",
            ][..],
            &[][..],
        ),
        (&[], &AGONES),
    ] {
        let up = Up::start(flags, env);
        let usual = up.has_port("usual");
        assert!((21000..=21010).contains(&usual), "{usual}");
        assert_eq!(up.has_port("special"), 22000);
        let pod = up.get("pod", "usual");
        let all = ["containers", "initContainers"].map(|list| pod["spec"][list].clone());
        let mut containers = all.iter().filter_map(Value::as_array).flatten();
        let sidecar = containers.find(|c| c["name"] == "agones-gameserver-sidecar").unwrap();
        assert_eq!(sidecar["resources"]["requests"]["cpu"], "30m", "{sidecar}");
        assert_eq!(sidecar["resources"]["limits"]["memory"], "64Mi", "{sidecar}");
    }
}

#[test]
fn ranges_that_cannot_work_are_refused_before_anything_starts() {
    for command in ["up", "run", "install"] {
        for (flags, why) in [
            (&["--port-range=8000-7000"][..], "port range `default`: 8000 is greater than 7000"),
            (
                &["--port-range=game=7500-7600"],
                "`default` (7000-8000) and `game` (7500-7600) overlap",
            ),
            (&["--port-range=7000"], "expected MIN-MAX"),
            (
                &["--sidecar-cpu-request=2", "--sidecar-cpu-limit=1"],
                "is greater than --sidecar-cpu-limit",
            ),
        ] {
            let done = plimsoll().arg(command).args(flags).output().unwrap();
            let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(2), "{command} {flags:?}: {stderr}");
            assert!(stderr.contains(why), "{command} {flags:?}: {stderr}");
        }
    }
}

#[test]
fn install_writes_the_ranges_and_resources_into_the_deployment() {
    let printed = plimsoll().arg("install").envs(AGONES).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    for flag in [
        "--port-range=default=21000-21010",
        "--port-range=game=22000-22000",
        "--sidecar-cpu-request=30m",
        "--sidecar-memory-limit=64Mi",
    ] {
        assert!(printed.contains(flag), "{flag} is missing");
    }
    let printed = plimsoll().arg("install").output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("--port-range=default=7000-8000"), "the default range");
    assert!(!printed.contains("--sidecar-cpu"), "no resources by default");
}

/// A running `plimsoll up` with game servers on a simulated node.
struct Up {
    child: Child,
    folder: tempfile::TempDir,
}

impl Up {
    fn start(flags: &[&str], env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.yaml");
        std::fs::write(&file, SERVERS).unwrap();
        let mut command = plimsoll();
        command.args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--simulated-nodes", "1"]);
        command.arg("--data").arg(folder.path()).args(flags).arg(&file);
        command.envs(env.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_applied = lines.any(|line| line == "gameserver/special applied");
        std::thread::spawn(move || lines.for_each(drop));
        let up = Self { child, folder };
        assert!(is_applied, "`plimsoll up` ended before the game servers were applied");
        up
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let mut get: Command = plimsoll();
        get.args(["get", kind, name, "-o", "json", "--kubeconfig"]).arg(kubeconfig);
        serde_json::from_slice(&get.output().unwrap().stdout).unwrap_or_default()
    }

    /// Waits until a game server has a host port and a pod.
    fn has_port(&self, name: &str) -> u64 {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let server = self.get("gameserver", name);
            let port = server["spec"]["ports"][0]["hostPort"].as_u64();
            if let Some(port) = port.filter(|_| !self.get("pod", name).is_null()) {
                return port;
            }
            assert!(Instant::now() < until, "no port: {server}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
