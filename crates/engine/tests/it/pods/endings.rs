//! No process, mount or network is left behind, however Plimsoll ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kubelet::Settings;
use plimsoll_engine::{Engine, Settings as EngineSettings};
use serde_json::json;

use super::{local, machine, shell};

/// A small Plimsoll in a process of its own. It is killed when the test ends.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that would keep running if the test failed.
struct Escaped(String);

impl Drop for Escaped {
    fn drop(&mut self) {
        if runs(&self.0) {
            let _ = Command::new("kill").args(["-9", &self.0]).status();
        }
    }
}

/// Starts it with a pod, with or without a data directory, and returns the kind of its network.
fn start(mut command: Command, script: &str, data: Option<&Path>) -> (Other, String) {
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [shell("c", script)]}});
    command.arg("run").arg(pod.to_string()).args(data);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut other = Other(child);
    let mut network = String::new();
    BufReader::new(other.0.stdout.take().unwrap()).read_line(&mut network).unwrap();
    (other, network.trim().to_owned())
}

/// Waits for a file with the numbers of processes.
async fn pids(file: &Path, count: usize) -> Vec<String> {
    for _ in 0..1200 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<String> = text.lines().map(str::to_owned).collect();
        if pids.len() >= count {
            return pids;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the pod did not start");
}

/// Returns whether a process runs; one that has ended and was not waited for does not.
fn runs(pid: &str) -> bool {
    let stat =
        std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, after)| !after.starts_with(['Z', 'X']))
}

async fn until_ended(pid: &str) {
    for _ in 0..400 {
        if !runs(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("process {pid} still runs");
}

#[tokio::test]
async fn a_killed_plimsoll_takes_its_processes_with_it_and_the_next_one_ends_what_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let file_name = file.display();
    let script = format!(
        "echo $$$$ >> {file_name}; setsid sh -c 'echo $$$$ >> {file_name}; exec sleep 1000' & exec sleep 1000"
    );
    let data = dir.path().join("data");
    let command = Command::new(env!("CARGO_BIN_EXE_plimsoll-launch"));
    let (mut other, _) = start(command, &script, Some(&data));
    let pids = pids(&file, 2).await;
    assert!(pids.iter().all(|pid| runs(pid)));
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    until_ended(&pids[0]).await;
    // Its child, in a session of its own, got no signal. A Plimsoll with other data leaves it alone; the next one with the same
    // data finds it by its mark.
    let _escaped = Escaped(pids[1].clone());
    let _another = machine(local()).await;
    assert!(runs(&pids[1]));
    let engine = Engine::open(EngineSettings::in_directory(&data)).await.unwrap();
    let settings = Settings { local: Some(local()), simulated: None };
    let _next = engine.run(settings).await.unwrap();
    until_ended(&pids[1]).await;
}

#[tokio::test]
async fn an_ordinary_user_gets_networks_for_pods_too() {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("launch");
    std::fs::copy(env!("CARGO_BIN_EXE_plimsoll-launch"), &binary).unwrap();
    for path in [dir.path(), &binary] {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let as_unprivileged = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
        command.current_dir("/");
        command
    };
    let mut check = as_unprivileged(Path::new("unshare"));
    let is_allowed = check.args(["--user", "--net", "true"]).stderr(Stdio::null()).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: this machine does not let ordinary users make networks, or this is one"
        );
        return;
    }
    let file = dir.path().join("pids");
    let script = format!("id -u >> {}; exec sleep 1000", file.display());
    let (_other, network) = start(as_unprivileged(&binary), &script, None);
    assert_eq!(network, "namespaces");
    assert_eq!(pids(&file, 1).await, ["65534"], "the program is the user's own");
}
