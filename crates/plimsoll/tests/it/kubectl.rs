//! The real kubectl, unmodified, against `plimsoll up`.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{from_env, plimsoll};

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
    assert!(edited.status.success(), "{}", combined_output(&edited));
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
fn uninstall_output_deletes_unowned_game_servers_and_the_crds() {
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
    let text = combined_output(&done);
    assert!(text.contains("gameserver.agones.dev/held patched"), "{text}");
    up.fails(&["get", "gameservers.agones.dev"], "the server doesn't have a resource type");
    let left = up.kubectl(&["get", "crds"]).output().unwrap();
    assert!(!combined_output(&left).contains("agones.dev"), "{}", combined_output(&left));
}

const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: 'main:1'}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: 'main:1'}]}
";

#[test]
fn an_old_and_a_new_kubectl_are_tested() {
    for (variable, version) in VERSIONS {
        let Some(kubectl) = from_env(variable) else { continue };
        let done = Command::new(kubectl).args(["version", "--client"]).output().unwrap();
        let wanted = format!("Client Version: {version}.");
        assert!(
            combined_output(&done).starts_with(&wanted),
            "{variable}: {}",
            combined_output(&done)
        );
    }
}

#[test]
fn kubectl_rolls_out_undoes_and_restarts() {
    for up in Up::each() {
        up.write("workloads.yaml", WORKLOADS);
        let created = ["deployment.apps/web created", "daemonset.apps/agent created"];
        up.ok(&["apply", "-f", "workloads.yaml"], &created);
        for object in ["deployment/web", "daemonset/agent"] {
            rolls_out_undoes_and_restarts(&up, object);
        }
    }
}

fn rolls_out_undoes_and_restarts(up: &Up, object: &str) {
    let complete = || {
        up.ok(&["rollout", "status", object, "--timeout=60s"], &["successfully rolled out"]);
    };
    let image = |wanted: &str| {
        let path = "jsonpath={.spec.template.spec.containers[0].image}";
        up.ok(&["get", object, "-o", path], &[wanted]);
    };
    complete();
    up.ok(&["set", "image", object, "main=main:2"], &["image updated"]);
    complete();
    up.ok(&["rollout", "history", object], &["REVISION", "\n1 ", "\n2 "]);
    up.ok(&["rollout", "history", object, "--revision=1"], &["revision #1", "main:1"]);
    up.ok(&["rollout", "history", object, "--revision=2"], &["revision #2", "main:2"]);
    up.ok(&["rollout", "undo", object], &["rolled back"]);
    complete();
    image("main:1");
    up.ok(&["rollout", "history", object], &["\n2 ", "\n3 "]);
    up.ok(&["rollout", "undo", object, "--to-revision=2"], &["rolled back"]);
    complete();
    image("main:2");
    up.fails(&["rollout", "undo", object, "--to-revision=9"], "unable to find");
    up.ok(&["rollout", "restart", object], &["restarted"]);
    complete();
    up.ok(&["get", object, "-o", "yaml"], &["kubectl.kubernetes.io/restartedAt:"]);
}

#[test]
fn kubectl_pauses_and_resumes_a_deployment() {
    for up in Up::each() {
        up.write("workloads.yaml", WORKLOADS);
        up.ok(&["apply", "-f", "workloads.yaml"], &[]);
        let web = "deployment/web";
        let complete = ["rollout", "status", web, "--timeout=60s"];
        up.ok(&complete, &["successfully rolled out"]);
        let sets = || combined_output(&up.kubectl(&["get", "rs", "-o", "name"]).output().unwrap());
        let before = sets();
        up.ok(&["rollout", "pause", web], &["deployment.apps/web paused"]);
        up.fails(&["rollout", "pause", web], "is already paused");
        up.ok(&["set", "image", web, "main=main:2"], &["image updated"]);
        let generation = ["get", web, "-o", "jsonpath={.metadata.generation}"];
        let generation = combined_output(&up.kubectl(&generation).output().unwrap());
        let observed = format!("--for=jsonpath={{.status.observedGeneration}}={generation}");
        up.ok(&["wait", web, &observed, "--timeout=60s"], &["condition met"]);
        assert_eq!(sets(), before, "a paused Deployment starts no rollout");
        up.fails(&["rollout", "restart", web], "can't restart paused deployment");
        up.ok(&["rollout", "resume", web], &["deployment.apps/web resumed"]);
        up.ok(&complete, &["successfully rolled out"]);
        assert_ne!(sets(), before, "the rollout has happened");
        up.fails(&["rollout", "pause", "daemonset/agent"], "pausing is not supported");
    }
}

/// The variables that name a kubectl, and the version that it has.
const VERSIONS: [(&str, &str); 2] =
    [("PLIMSOLL_TEST_KUBECTL", "v1.36"), ("PLIMSOLL_TEST_KUBECTL_OLD", "v1.32")];

/// A running `plimsoll up` with a kubectl that talks to it.
pub(crate) struct Up {
    kubectl: PathBuf,
    folder: tempfile::TempDir,
    server: Child,
}

impl Up {
    /// Starts its API server; `None` where there is no kubectl.
    fn start() -> Option<Self> {
        from_env("PLIMSOLL_TEST_KUBECTL").map(|kubectl| Self::with(kubectl, &["--api-only"]))
    }

    /// Starts one with controllers and a simulated node for each kubectl, as it is needed.
    fn each() -> impl Iterator<Item = Self> {
        let kubectls = VERSIONS.into_iter().filter_map(|(variable, _)| from_env(variable));
        kubectls.map(|kubectl| Self::with(kubectl, &["--simulated-nodes", "1"]))
    }

    pub(crate) fn with(kubectl: PathBuf, parts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = plimsoll();
        command
            .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path())
            .args(parts);
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let up = Self { kubectl, folder, server };
        let until = Instant::now() + Duration::from_secs(20);
        while !(kubeconfig.exists()
            && up.kubectl(&["get", "--raw", "/readyz"]).output().unwrap().status.success())
        {
            assert!(Instant::now() < until, "`plimsoll up` does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        up
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = self.connect(Command::new(&self.kubectl));
        command.args(args);
        if args.ends_with(&["-f", "-"]) {
            let second =
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second, labels: {app: web}}\n";
            self.write("second.yaml", second);
            command.stdin(std::fs::File::open(self.folder.path().join("second.yaml")).unwrap());
        }
        command
    }

    /// Runs kubectl, which must succeed and say all of `wanted`.
    pub(crate) fn ok(&self, args: &[&str], wanted: &[&str]) {
        let done = self.kubectl(args).output().unwrap();
        let text = combined_output(&done);
        assert!(done.status.success(), "kubectl {args:?}: {text}");
        for part in wanted {
            assert!(text.contains(part), "kubectl {args:?} does not say `{part}`:\n{text}");
        }
    }

    /// Connects a program to its API server, in its folder.
    pub(crate) fn connect(&self, mut program: Command) -> Command {
        program
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        program
    }

    /// Runs kubectl, which must fail and say why.
    fn fails(&self, args: &[&str], why: &str) {
        let done = self.kubectl(args).output().unwrap();
        let text = combined_output(&done);
        assert!(!done.status.success(), "kubectl {args:?} succeeded: {text}");
        assert!(text.contains(why), "kubectl {args:?} does not say `{why}`:\n{text}");
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

fn combined_output(done: &Output) -> String {
    let text = [done.stdout.as_slice(), done.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}
