//! The real kubectl, unmodified, against `plimsoll up`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::plimsoll;

const MANIFESTS: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {capacity: {cpu: '4', memory: 8Gi, pods: '110'}, allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: red}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: 'web:1', ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: web}}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: main, image: 'web:1'}]}
";

#[test]
fn kubectl_applies_shows_changes_and_deletes() {
    let Some(up) = Up::start() else { return };
    up.write("all.yaml", MANIFESTS);
    up.ok(
        &["apply", "-f", "all.yaml"],
        &["configmap/settings created", "deployment.apps/web created", "pod/p1 created"],
    );
    up.ok(
        &["apply", "-f", "all.yaml"],
        &["configmap/settings unchanged", "deployment.apps/web unchanged"],
    );
    up.write("changed.yaml", &MANIFESTS.replace("colour: red", "colour: blue"));
    up.ok(&["diff", "-f", "all.yaml"], &[]);
    up.ok(&["apply", "-f", "changed.yaml"], &["configmap/settings configured"]);
    up.ok(
        &["apply", "--server-side", "--force-conflicts", "-f", "all.yaml"],
        &["configmap/settings serverside-applied"],
    );
    up.fails(
        &["apply", "--server-side", "--field-manager=other", "-f", "changed.yaml"],
        "conflict with \"kubectl\"",
    );
    up.fails(&["create", "-f", "all.yaml"], "already exists");
    up.write(
        "typo.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: typo}\ndatum: {a: b}\n",
    );
    up.fails(&["apply", "-f", "typo.yaml"], "unknown field \"datum\"");

    up.ok(&["get", "deployments"], &["NAME", "READY", "UP-TO-DATE", "web", "0/2"]);
    up.ok(
        &["get", "deployment", "web", "-o", "wide"],
        &["CONTAINERS", "IMAGES", "main", "web:1", "app=web"],
    );
    up.ok(&["get", "cm", "settings", "-o", "yaml"], &["colour: red", "kind: ConfigMap"]);
    up.ok(&["get", "cm", "settings", "-o", "json"], &["\"colour\": \"red\""]);
    up.ok(&["get", "pods", "-l", "app=web", "-A"], &["p1", "Pending"]);
    up.ok(&["get", "all"], &["deployment.apps/web", "pod/p1"]);
    up.ok(
        &["describe", "deployment", "web"],
        &["Selector:", "app=web", "RollingUpdateStrategy:", "Image:"],
    );
    up.ok(&["describe", "pod", "p1"], &["Node:", "n1", "Events:"]);
    up.ok(
        &["explain", "deployment.spec.replicas"],
        &["GROUP:      apps", "FIELD: replicas <integer>"],
    );
    up.ok(
        &["api-resources"],
        &["deployments", "customresourcedefinitions", "fleets", "nodeautoscalers"],
    );
    up.ok(&["api-versions"], &["apps/v1", "agones.dev/v1"]);
    up.ok(&["auth", "can-i", "create", "pods"], &["yes"]);

    up.ok(&["label", "cm", "settings", "tier=front"], &["configmap/settings labeled"]);
    up.ok(&["annotate", "cm", "settings", "why=because"], &["configmap/settings annotated"]);
    up.ok(&["scale", "deployment", "web", "--replicas=5"], &["deployment.apps/web scaled"]);
    up.ok(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"], &["5"]);
    up.ok(&["set", "image", "deployment/web", "main=web:2"], &["image updated"]);
    up.ok(
        &["patch", "cm", "settings", "-p", "{\"data\": {\"size\": \"7\"}}"],
        &["configmap/settings patched"],
    );
    up.ok(
        &["delete", "deployment", "web", "--cascade=orphan"],
        &["deployment.apps \"web\" deleted"],
    );
    up.ok(
        &["delete", "cm", "settings", "--cascade=foreground"],
        &["configmap \"settings\" deleted"],
    );
    up.fails(&["get", "cm", "settings"], "NotFound");
}

#[test]
fn kubectl_edits_with_an_editor() {
    let Some(up) = Up::start() else { return };
    up.ok(&["create", "configmap", "settings", "--from-literal=colour=red"], &["created"]);
    up.write("editor", "#!/bin/sh\nsed -i s/red/green/ \"$1\"\n");
    let editor = up.folder.path().join("editor");
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let edited = up
        .kubectl(&["edit", "configmap", "settings"])
        .env("KUBE_EDITOR", &editor)
        .output()
        .unwrap();
    assert!(edited.status.success(), "{}", said(&edited));
    up.ok(&["get", "cm", "settings", "-o", "jsonpath={.data.colour}"], &["green"]);
}

#[test]
fn kubectl_watches_and_waits() {
    let Some(up) = Up::start() else { return };
    up.write("all.yaml", MANIFESTS);
    up.ok(&["apply", "-f", "all.yaml"], &[]);
    let mut watch = up
        .kubectl(&["get", "cm", "-l", "app=web", "-w", "--no-headers"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("settings"));
    up.ok(&["create", "-f", "-"], &[]);
    assert!(lines.next().unwrap().unwrap().starts_with("second"));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let ready = "{\"status\": {\"phase\": \"Running\", \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]}}";
    up.ok(&["patch", "pod", "p1", "--subresource=status", "-p", ready], &["patched"]);
    up.ok(&["wait", "pod/p1", "--for=condition=Ready", "--timeout=10s"], &["condition met"]);
    up.ok(
        &["wait", "pod/p1", "--for=jsonpath={.status.phase}=Running", "--timeout=10s"],
        &["condition met"],
    );
    up.ok(&["events"], &[]);
}

#[test]
fn kubectl_cordons_and_drains() {
    let Some(up) = Up::start() else { return };
    up.write("all.yaml", MANIFESTS);
    up.ok(&["apply", "-f", "all.yaml"], &[]);
    up.ok(&["cordon", "n1"], &["node/n1 cordoned"]);
    up.ok(&["get", "nodes"], &["n1", "SchedulingDisabled"]);
    up.ok(&["drain", "n1", "--force", "--timeout=20s"], &["pod/p1 evicted", "node/n1 drained"]);
    up.fails(&["get", "pod", "p1"], "NotFound");
    up.ok(&["uncordon", "n1"], &["node/n1 uncordoned"]);
}

#[test]
fn what_uninstall_prints_ends_game_servers_that_nobody_controls_and_takes_the_kinds_away() {
    let Some(up) = Up::start() else { return };
    let server = "
apiVersion: agones.dev/v1
kind: GameServer
metadata: {name: held}
spec: {template: {spec: {containers: [{name: game, image: 'game:1'}]}}}
";
    up.write("server.yaml", server);
    up.ok(&["apply", "-f", "server.yaml"], &["created"]);
    up.ok(&["get", "gs", "held", "-o", "yaml"], &["- agones.dev/controller"]);
    // Nothing controls it, so that it would be held for ever.
    up.ok(&["delete", "gs", "held", "--wait=false"], &["deleted"]);
    let script = plimsoll().args(["install", "--uninstall"]).output().unwrap();
    assert!(script.status.success());
    up.write("uninstall.sh", &String::from_utf8(script.stdout).unwrap());
    let done = Command::new("sh")
        .arg("uninstall.sh")
        .current_dir(up.folder.path())
        .env("KUBECONFIG", up.folder.path().join("kubeconfig"))
        .env("HOME", up.folder.path())
        .env("KUBECTL", &up.kubectl)
        .env("PATIENCE", "1s")
        .output()
        .unwrap();
    let text = said(&done);
    assert!(text.contains("gameserver.agones.dev/held patched"), "{text}");
    up.fails(&["get", "gameservers.agones.dev"], "the server doesn't have a resource type");
    let left = up.kubectl(&["get", "crds"]).output().unwrap();
    assert!(!said(&left).contains("agones.dev"), "{}", said(&left));
}

/// A running `plimsoll up` with a kubectl that talks to it.
struct Up {
    kubectl: PathBuf,
    folder: tempfile::TempDir,
    server: Child,
}

impl Up {
    /// Starts it; `None`, with a line saying what is missing, where there is no kubectl. In continuous integration a
    /// missing one is a failure.
    fn start() -> Option<Self> {
        let Some(kubectl) = std::env::var_os("PLIMSOLL_TEST_KUBECTL") else {
            let missing =
                "skipped: no kubectl; run `cargo xtask test`, or set PLIMSOLL_TEST_KUBECTL";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("{missing}");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = plimsoll();
        command
            .args([
                "up",
                "--api-only",
                "--ephemeral",
                "--listen",
                "127.0.0.1:0",
                "--write-kubeconfig",
            ])
            .arg(&kubeconfig);
        let server = command.stdout(Stdio::null()).spawn().unwrap();
        let up = Self { kubectl: kubectl.into(), folder, server };
        let until = Instant::now() + Duration::from_secs(20);
        while !(kubeconfig.exists()
            && up.kubectl(&["get", "--raw", "/readyz"]).output().unwrap().status.success())
        {
            assert!(Instant::now() < until, "`plimsoll up` does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(up)
    }

    fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        command.env("HOME", self.folder.path()).args(args).stdin(Stdio::null());
        if args.ends_with(&["-f", "-"]) {
            let second =
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second, labels: {app: web}}\n";
            self.write("second.yaml", second);
            command.stdin(std::fs::File::open(self.folder.path().join("second.yaml")).unwrap());
        }
        command
    }

    /// Runs kubectl, which must succeed and say all of `wanted`.
    fn ok(&self, args: &[&str], wanted: &[&str]) {
        let done = self.kubectl(args).output().unwrap();
        let text = said(&done);
        assert!(done.status.success(), "kubectl {args:?}: {text}");
        for part in wanted {
            assert!(text.contains(part), "kubectl {args:?} does not say `{part}`:\n{text}");
        }
    }

    /// Runs kubectl, which must fail and say why.
    fn fails(&self, args: &[&str], why: &str) {
        let done = self.kubectl(args).output().unwrap();
        let text = said(&done);
        assert!(!done.status.success(), "kubectl {args:?} succeeded: {text}");
        assert!(text.contains(why), "kubectl {args:?} does not say `{why}`:\n{text}");
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

fn said(done: &Output) -> String {
    let text = [done.stdout.as_slice(), done.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}
