//! The commands of the page about services for a cluster: each runs as it is on the page, with the real kubectl, against `plimsoll up`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::laptop::Laptop;
use crate::{from_env, guide, root};

/// A shell in which `plimsoll` and `kubectl` are found, and reach a cluster.
struct Shell<'a> {
    cluster: &'a Laptop,
    programs: tempfile::TempDir,
}

impl<'a> Shell<'a> {
    fn new(cluster: &'a Laptop, kubectl: &Path) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let plimsoll = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
        for (name, program) in [("plimsoll", plimsoll), ("kubectl", kubectl)] {
            std::os::unix::fs::symlink(program, programs.path().join(name)).unwrap();
        }
        Self { cluster, programs }
    }

    /// Types a line in the project's root, which must succeed, and returns what it prints.
    fn types(&self, line: &str) -> String {
        let path = format!("{}:{}", self.programs.path().display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(root()).env("PATH", path);
        let done = self.cluster.connect(shell).output().unwrap();
        let text = [done.stdout, done.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(done.status.success(), "{line}: {text}");
        text
    }

    /// Types a line until it prints all of these.
    fn types_until(&self, line: &str, wanted: &[&str]) {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let text = self.types(line);
            let Some(missing) = wanted.iter().find(|part| !text.contains(**part)) else { return };
            assert!(Instant::now() < until, "{line} does not print `{missing}`:\n{text}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Returns the document of the Deployment in an example.
fn deployment(text: &str) -> String {
    text.split("---\n").find(|document| document.contains("kind: Deployment")).unwrap().to_owned()
}

#[test]
fn the_commands_for_a_cluster_install_apply_and_show() {
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let page = std::fs::read_to_string(root().join("docs/guide/services.md")).unwrap();
    let section = guide::section(&page, "On a cluster");
    let lines = guide::commands(section);
    // There is no Prometheus on this cluster, so that the policy says what is missing.
    let cluster = Laptop::start_with("service.yaml", |text| deployment(&text));
    let shell = Shell::new(&cluster, &kubectl);
    // The engine has Plimsoll's kinds from the start; a cluster has them from the installation.
    shell.types("kubectl delete crds --all");
    for line in &lines {
        let wanted: &[&str] = match line.split('#').next().unwrap().trim_end() {
            "plimsoll install | kubectl apply --server-side -f -" => &[
                "customresourcedefinition.apiextensions.k8s.io/scalingpolicies.plimsoll.dev serverside-applied",
                "deployment.apps/plimsoll serverside-applied",
            ],
            "kubectl apply --server-side -f examples/cluster-service.yaml" => &[
                "metricsource.plimsoll.dev/prometheus serverside-applied",
                "scalingpolicy.plimsoll.dev/web serverside-applied",
            ],
            "kubectl get scalingpolicies" => &["NAME", "\nweb "],
            "kubectl describe scalingpolicy web" => &[
                "Conditions:",
                "ScalingActive",
                "FailedGetMetric",
                "prometheus.monitoring.svc",
                "Events:",
            ],
            other => panic!("what should this line of the page do: `{other}`?"),
        };
        shell.types_until(line, wanted);
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
}
