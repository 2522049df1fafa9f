//! `plimsoll install`: the real API server accepts every manifest.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{from_env, plimsoll};

#[test]
fn output_is_deterministic_apart_from_the_certificate() {
    let printed = || {
        let out = plimsoll().args(["install", "--game-namespace=games"]).output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    let kept = |text: &str| -> Vec<String> {
        // Certificates and keys, as base64 of PEM.
        let is_secret = |line: &&str| line.contains("LS0tLS1CRUdJTi");
        text.lines().filter(|line| !is_secret(line)).map(str::to_owned).collect()
    };
    let (first, second) = (printed(), printed());
    assert_ne!(first, second, "each has a certificate of its own");
    assert_eq!(kept(&first), kept(&second));
    let kinds = ["CustomResourceDefinition", "ClusterRole", "Secret", "Deployment", "Service"];
    for kind in kinds.into_iter().chain(["APIService", "RoleBinding"]) {
        assert!(first.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    assert!(first.contains("namespace: games"));
}

#[test]
fn the_real_api_server_takes_everything() {
    let Some(kubeconfig) = from_env("PLIMSOLL_TEST_KUBECONFIG") else { return };
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let kubectl = |args: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg("--kubeconfig").arg(&kubeconfig).args(args);
        command
    };
    // A dry run makes no namespace, and nothing can be tried in one that is not there.
    drop(kubectl(&["create", "namespace", "plimsoll-system"]).output());
    let manifests = plimsoll().arg("install").output().unwrap();
    let mut apply = kubectl(&[
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    ]);
    apply.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut apply = apply.spawn().unwrap();
    apply.stdin.take().unwrap().write_all(&manifests.stdout).unwrap();
    let done = apply.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&done.stderr));
    for applied in [
        "customresourcedefinition.apiextensions.k8s.io/fleets.agones.dev",
        "deployment.apps/plimsoll",
        "poddisruptionbudget.policy/agones-gameserver-safe-to-evict-false",
        "apiservice.apiregistration.k8s.io/v1.allocation.agones.dev",
        "rolebinding.rbac.authorization.k8s.io/plimsoll-authentication-reader",
        "mutatingwebhookconfiguration.admissionregistration.k8s.io/plimsoll-mutate",
    ] {
        assert!(stdout.contains(applied), "{applied} is not in\n{stdout}");
    }
    drop(kubectl(&["delete", "namespace", "plimsoll-system", "--wait=false"]).output());
}
