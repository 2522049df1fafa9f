//! The permissions that `plimsoll install` grants, on the real API server: the controllers work with them, and nothing else is allowed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use api::agones::GameServer;
use cluster::{Caches, LeaderElection};
use control::{Part, Settings};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use process::Supervisor;
use serde_json::{Value, json};

use crate::{from_env, plimsoll};

/// The namespace, account and role of this run; all of it goes with this.
struct Account {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    name: String,
}

impl Account {
    /// Makes an account with the rights that are printed for the one of the controllers, with some flags. Credentials of sources are those
    /// of its own namespace.
    fn make(name: &str, flags: &[&str]) -> Option<Self> {
        let kubeconfig = from_env("PLIMSOLL_TEST_KUBECONFIG")?;
        let kubectl = from_env("PLIMSOLL_TEST_KUBECTL")?;
        let name = format!("{name}-{}", std::process::id());
        let account = Self { kubectl, kubeconfig, name };
        account.ok(&["create", "namespace", &account.name], "");
        let printed = plimsoll()
            .args(["install", "--namespace", &account.name, "--game-namespace", &account.name])
            .args(flags)
            .output()
            .unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        // Kinds are shared with other tests, and only added to; what the whole cluster has gets a name of this run.
        let parts = printed.split("---\n").filter(|part| {
            ["CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
                .into_iter()
                .chain(["Role", "RoleBinding"])
                .any(|kind| part.contains(&format!("\nkind: {kind}\n")))
        });
        let own = |part: &str| {
            let is_global = part.contains("\nkind: ClusterRole");
            let (from, to) = ("name: plimsoll\n", format!("name: {}\n", account.name));
            let sdk = format!("name: {}-sdk\n", account.name);
            let namespace = format!("namespace: {}\n", account.name);
            match is_global {
                true => part.replace(from, &to).replace("name: agones-sdk\n", &sdk),
                false => part.replace("namespace: plimsoll-system\n", &namespace),
            }
        };
        let manifests: Vec<String> = parts.map(own).collect();
        let manifests = manifests.join("---\n");
        // The account keeps its name, and so must who is bound.
        let manifests = bind_account(&manifests, &account.name);
        account.ok(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &manifests);
        Some(account)
    }

    fn kubectl(&self, args: &[&str], input: &str) -> std::process::Output {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn ok(&self, args: &[&str], input: &str) -> String {
        let done = self.kubectl(args, input);
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{args:?}: {error}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Returns a client that is this account, or the one that may do everything.
    async fn client(&self, is_account: bool) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        if is_account {
            let token = self.ok(&["create", "token", "plimsoll", "-n", &self.name], "");
            config.auth_info = kube::config::AuthInfo {
                token: Some(token.trim().to_owned().into()),
                ..Default::default()
            };
        }
        Client::try_from(config).unwrap()
    }

    /// Asks whether the account may do something to what is written as for kubectl: `RESOURCE[.GROUP][/NAME] [--subresource=PART]`. Groups
    /// need not be served.
    fn may(&self, verb: &str, what: &str, namespace: &str) -> bool {
        let (what, subresource) = what.split_once(" --subresource=").unwrap_or((what, ""));
        let (what, name) = what.split_once('/').unwrap_or((what, ""));
        let (resource, group) = what.split_once('.').unwrap_or((what, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{}:plimsoll", self.name),
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {
                    "namespace": namespace, "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource, "name": name,
                },
            },
        });
        let args = ["create", "-o", "jsonpath={.status.allowed}", "-f", "-"];
        self.ok(&args, &review.to_string()) == "true"
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let sdk = format!("{}-sdk", self.name);
        drop(self.kubectl(&["delete", "node", &self.name], ""));
        drop(self.kubectl(&["delete", "clusterrole", &self.name, &sdk], ""));
        drop(self.kubectl(&["delete", "clusterrolebinding", &self.name], ""));
        for name in ["plimsoll-authentication-reader", "plimsoll-cluster-autoscaler"] {
            let name = format!("{}-{name}", self.name);
            drop(self.kubectl(&["delete", "role,rolebinding", "-n", "kube-system", &name], ""));
        }
        drop(self.kubectl(&["delete", "namespace", &self.name, "--wait=false"], ""));
    }
}

/// Sets the names of subjects back that were renamed with the roles, and gives the binding beside others' a name of this run.
fn bind_account(manifests: &str, name: &str) -> String {
    let documents = manifests.split("---\n").map(|text| {
        let Ok(mut object) = serde_saphyr::from_str::<Value>(text) else { return String::new() };
        let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            let is_sdk = object_is_sdk(subject);
            subject["name"] = json!(if is_sdk { "agones-sdk" } else { "plimsoll" });
        }
        if object["metadata"]["namespace"] == "kube-system" {
            let own = format!("{name}-{}", object["metadata"]["name"].as_str().unwrap());
            if object["roleRef"]["name"] == object["metadata"]["name"] {
                object["roleRef"]["name"] = json!(own);
            }
            object["metadata"]["name"] = json!(own);
        }
        if object["kind"] == "RoleBinding" && object["roleRef"]["name"] == "agones-sdk" {
            object["roleRef"]["name"] = json!(format!("{name}-sdk"));
        }
        object.to_string()
    });
    documents.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n---\n")
}

fn object_is_sdk(subject: &Value) -> bool {
    subject["name"].as_str().is_some_and(|name| name.contains("sdk"))
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds().await {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A node of this run, as KWOK plays it, and a fleet that goes there.
fn objects(name: &str) -> String {
    let amounts = json!({"cpu": "8", "memory": "16Gi", "pods": "50"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"test": name, "type": "kwok"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    let pod = json!({"nodeSelector": {"test": name}, "containers": [{"name": "game", "image": "game:1"}]});
    let server = json!({"ports": [{"name": "game", "containerPort": 7654}], "health": {"disabled": true}, "template": {"spec": pod}});
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet",
        "metadata": {"name": "f", "namespace": name},
        "spec": {"replicas": 2, "template": {"spec": server}},
    });
    format!("{node}\n---\n{fleet}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_work_with_the_rights_of_the_installation_and_have_no_others() {
    let Some(account) = Account::make("rights", &["--source-secret=prom"]) else { return };
    let name = account.name.as_str();
    let settings =
        Settings { lease: Some(LeaderElection::new(name, "test")), ..Settings::default() };
    let mut tasks = tokio::task::JoinSet::new();
    let client = account.client(true).await;
    let caches = Caches::new(Some(name.to_owned()), false);
    tasks.spawn(async move {
        let (kinds, supervisor) = (control::required_kinds(&Part::ALL), Supervisor::new());
        let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
        control::run(client, caches, settings, &Part::ALL, std::future::pending()).await;
    });
    account.ok(&["create", "-f", "-"], &objects(name));
    let address = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.9.0.1"}]}});
    let servers: Api<GameServer> = Api::namespaced(account.client(false).await, name);
    let state = |server: &GameServer| server.status.as_ref().map(|s| s.state.clone());
    until("two servers are Ready", async || {
        let patch = ["patch", "node", name, "--subresource=status", "--type=merge", "-p"];
        drop(account.kubectl(&[&patch[..], &[&address.to_string()]].concat(), ""));
        let all = servers.list(&ListParams::default()).await.unwrap().items;
        for server in all.iter().filter(|s| state(s).as_deref() == Some("Scheduled")) {
            let asks = Patch::Merge(json!({"status": {"state": "RequestReady"}}));
            drop(servers.patch(&server.name_any(), &PatchParams::default(), &asks).await);
        }
        all.len() == 2 && all.iter().all(|s| state(s).as_deref() == Some("Ready"))
    })
    .await;
    let is_said =
        || account.ok(&["get", "events", "-n", name], "").contains("SDK.Ready() complete");
    until("events are there", async || is_said()).await;
    account.ok(&["get", "lease", "plimsoll-controller-lock", "-n", name], "");
    account.ok(&["delete", "fleet", "f", "-n", name], "");
    until("all is gone", async || {
        servers.list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    for (verb, what, namespace) in [
        ("get", "secrets", name),
        ("get", "secrets/plimsoll-tls", name),
        ("list", "secrets", name),
        ("list", "secrets", "kube-system"),
        ("update", "leases.coordination.k8s.io/other", name),
        ("get", "leases.coordination.k8s.io/plimsoll-controller-lock", "kube-system"),
        ("patch", "nodes", name),
        ("update", "nodegroups.plimsoll.dev", name),
        ("create", "fleets.agones.dev", name),
        ("delete", "fleets.agones.dev", name),
        ("list", "events", name),
        ("create", "tokenreviews.authentication.k8s.io", name),
    ] {
        assert!(!account.may(verb, what, namespace), "{verb} {what} in {namespace}");
    }
    assert!(account.may("update", "leases.coordination.k8s.io/plimsoll-controller-lock", name));
    for (verb, what) in OF_NODES.into_iter().chain(OF_POLICIES).chain([("get", "secrets/prom")]) {
        assert!(account.may(verb, what, name), "{verb} {what}");
    }
}

/// What only the controllers of nodes need.
const OF_NODES: [(&str, &str); 7] = [
    ("create", "nodegroups.plimsoll.dev"),
    ("patch", "nodegroups.plimsoll.dev"),
    ("delete", "nodegroups.plimsoll.dev"),
    ("create", "nodes"),
    ("update", "nodes"),
    ("delete", "nodes"),
    ("create", "pods --subresource=eviction"),
];

/// What only the controllers of policies need.
const OF_POLICIES: [(&str, &str); 6] = [
    ("patch", "deployments.apps --subresource=scale"),
    ("get", "metricsources.plimsoll.dev"),
    ("watch", "metricsources.plimsoll.dev"),
    ("list", "pods.metrics.k8s.io"),
    ("get", "pods.custom.metrics.k8s.io --subresource=queue_length"),
    ("list", "jobs.external.metrics.k8s.io"),
];

#[test]
fn parts_that_are_left_out_have_no_rights() {
    let games = "--only=gameserver,gameserverset,fleet,fleetautoscaler";
    let Some(account) = Account::make("rights-games", &[games]) else { return };
    for (verb, what) in OF_NODES.into_iter().chain(OF_POLICIES) {
        assert!(!account.may(verb, what, &account.name), "{verb} {what}");
    }
    assert!(account.may("create", "gameservers.agones.dev", &account.name));
    assert!(account.may("update", "gameservers.agones.dev", &account.name));
}
