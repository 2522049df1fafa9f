//! The real kubectl reads logs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{local, machine, shell};
use crate::kubectls;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_follows_and_selects_logs() {
    let kubectls = kubectls();
    if kubectls.is_empty() {
        return;
    }
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    let listening = machine.engine.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    machine.engine.write_kubeconfig(&config, &listening).unwrap();
    let containers = json!([
        shell("one", "echo a; sleep 1; echo b; exit 1"),
        shell("two", "echo c; sleep 1000")
    ]);
    machine.create("p", json!({"restartPolicy": "OnFailure", "containers": containers})).await;
    machine
        .until("p", "was restarted", |pod| super::states(pod).get("one").is_some_and(|s| s.1 > 0))
        .await;
    for kubectl in kubectls {
        check_logs(&kubectl, &config).await;
    }
}

async fn check_logs(kubectl: &OsStr, config: &Path) {
    let run = |args: &'static [&'static str]| {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(config).args(args);
        async move {
            let output =
                tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            (
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        }
    };
    assert_eq!(run(&["logs", "p", "-c", "two"]).await.0, "c\n");
    assert_eq!(run(&["logs", "p", "-c", "one", "--previous", "--tail=1"]).await.0, "b\n");
    assert_eq!(run(&["logs", "p", "-c", "one", "-f"]).await.0, "a\nb\n", "until the run ends");
    let (_, refused) = run(&["logs", "p", "-c", "three"]).await;
    assert!(refused.contains("container three is not valid for pod p"), "{refused}");
    let (shown, _) = run(&["get", "pods,nodes", "-o", "wide"]).await;
    assert!(
        shown.contains("node/local") && shown.contains("Ready") && shown.contains("/2 "),
        "{shown}"
    );
}
