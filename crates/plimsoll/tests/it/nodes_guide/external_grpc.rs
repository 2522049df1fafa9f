//! Servers of `externalgrpc` beside Plimsoll, and Plimsoll as such a server.

use std::fs;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::external_grpc::serve;
use crate::laptop::{Laptop, until};
use crate::lease::free_port;
use crate::machines::Shape;
use crate::root;

use super::shell::{Shell, ok};
use super::{block, certificates};

pub(super) const SERVER: &str = "external-grpc-cloud-provider-service";
pub(super) const SECRET: &str = "kubectl create secret generic externalgrpc";
pub(super) const CONNECTION: &str = "kind: NodeAutoscaler";
pub(super) const OTHER_DIRECTION: &str = "plimsoll run --only nodes --externalgrpc";
pub(super) const CONFIG: &str = "# externalgrpc.yaml";

/// The line that starts Cluster Autoscaler's example server, by the meaning of its flags there. The server itself is not run: it has to be
/// built from Cluster Autoscaler's source, and then needs a cloud. The stand-in gets what the line says in its place.
struct ServerLine {
    address: String,
    group: String,
    max: i32,
    ca: String,
    certificate: String,
    key: String,
}

impl ServerLine {
    fn read(line: &str) -> Self {
        let line = line.replace("\\\n", " ");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(SERVER));
        let (mut read, mut has_cloud) = (Self::empty(), false);
        for word in words {
            let (flag, value) = word.split_once('=').unwrap();
            match flag {
                "--address" => read.address = value.to_owned(),
                "--cloud-provider" => has_cloud = true,
                "--nodes" => {
                    let parts: Vec<&str> = value.splitn(3, ':').collect();
                    assert_eq!(parts[0], "0", "the stand-in has no other minimum");
                    (read.max, read.group) = (parts[1].parse().unwrap(), parts[2].to_owned());
                }
                "--ca-cert" => read.ca = value.to_owned(),
                "--cert" => read.certificate = value.to_owned(),
                "--key-cert" => read.key = value.to_owned(),
                _ => panic!("the example server has no flag {flag}"),
            }
        }
        assert!(has_cloud, "{line}");
        read
    }

    fn empty() -> Self {
        let text = String::new;
        Self {
            address: text(),
            group: text(),
            max: 0,
            ca: text(),
            certificate: text(),
            key: text(),
        }
    }

    /// Returns the certificates of the server. As there, clients have to show one.
    fn tls(&self, shell: &Shell) -> ServerTlsConfig {
        let file = |name: &str| fs::read(shell.path().join(name)).unwrap();
        let identity = Identity::from_pem(file(&self.certificate), file(&self.key));
        let authority = Certificate::from_pem(file(&self.ca));
        ServerTlsConfig::new().identity(identity).client_ca_root(authority)
    }
}

/// Creates a pod that only nodes with a label of this value take.
async fn create_pod(client: &Client, pool: &str) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = json!({
        "metadata": {"name": "job"},
        "spec": {
            "nodeSelector": {"pool": pool}, "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// Waits until the pod runs, and returns its node.
async fn node_of_pod(client: &Client) -> Node {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    until("the pod runs", async || {
        let pod = pods.get("job").await.unwrap();
        pod.status.is_some_and(|status| status.phase.as_deref() == Some("Running"))
    })
    .await;
    let name = pods.get("job").await.unwrap().spec.unwrap().node_name.unwrap();
    Api::all(client.clone()).get(&name).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_three_steps_to_a_server_of_a_cloud_give_a_pod_a_node() {
    let Some(shell) = Shell::new() else { return };
    let laptop = Laptop::with_objects("");
    let client = laptop.client().await;
    certificates::write(shell.path(), &["server", "client"]);

    let server = ServerLine::read(&block("sh", SERVER));
    let objects = block("yaml", CONNECTION);
    let example = root().join("examples/nodes/external-grpc.yaml");
    assert_eq!(objects, fs::read_to_string(example).unwrap());
    assert!(objects.contains(&format!("address: {}\n", server.address)), "{objects}");
    assert!(objects.contains(&format!("group: {}}}", server.group)), "{objects}");
    let shape = Shape { key: "pool", value: server.group.clone() };
    let (group, tls) = ((server.group.as_str(), server.max), server.tls(&shell));
    let serving = serve(client.clone(), group, shape, Some(tls)).await;

    let printed = ok(laptop.connect(shell.command(&block("sh", SECRET))));
    assert_eq!(printed, "secret/externalgrpc created\n");
    // The port of the page may be taken.
    shell.write("objects.yaml", &objects.replace(&server.address, &serving.address));
    ok(laptop.connect(shell.command("kubectl apply -f objects.yaml")));
    create_pod(&client, &server.group).await;
    let node = node_of_pod(&client).await;
    let id = node.spec.unwrap().provider_id.unwrap();
    assert!(id.starts_with("cloud://"), "{id}");
}

/// A group for Cluster Autoscaler to scale, and no NodeAutoscaler.
const GROUP: &str = "
apiVersion: plimsoll.dev/v1alpha1
kind: NodeGroup
metadata: {name: workers}
spec:
  max: 3
  provider: {simulated: {startAfter: 1s}}
  template:
    labels: {pool: workers}
    capacity: {cpu: '4', memory: 8Gi, pods: '20'}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_elsewhere_scales_the_groups_of_this_cluster() {
    let Some(shell) = Shell::new() else { return };
    let laptop = Laptop::with_objects(GROUP);
    let client = laptop.client().await;
    let lines = block("sh", OTHER_DIRECTION).replace("\\\n", " ");
    let lines: Vec<&str> = lines.lines().collect();
    let [server, autoscaler] = lines[..] else { panic!("{lines:?}") };
    // The folders and the address of the page are those of pods.
    let (folder, address) = (shell.path().display(), format!("127.0.0.1:{}", free_port()));
    let is_same_port = server.contains("0.0.0.0:8086 ");
    let config = block("yaml", CONFIG);
    assert!(is_same_port && config.contains(".svc:8086\n"), "{server}\n{config}");
    let server = server.replace("0.0.0.0:8086", &address).replace("/etc/", &format!("{folder}/"));
    let config = config
        .replace("plimsoll.plimsoll-system.svc:8086", &address)
        .replace("/etc/", &format!("{folder}/"));
    shell.write("externalgrpc.yaml", &config);
    certificates::write(shell.path(), &["plimsoll/externalgrpc/tls", "cluster-autoscaler/tls"]);
    for place in ["plimsoll/callers", "cluster-autoscaler"] {
        fs::create_dir_all(shell.path().join(place)).unwrap();
        fs::copy(shell.path().join("ca.crt"), shell.path().join(place).join("ca.crt")).unwrap();
    }
    // Our own client in the place of Cluster Autoscaler: outside a pod, and with times that a test can wait for.
    let flags = "--kubeconfig=$KUBECONFIG --address=127.0.0.1:0 --scale-down-unneeded-time=2s \
                 --scale-down-delay-after-add=1s";
    let ours = format!("exec plimsoll cluster-autoscaler \"$@\" {flags}");
    shell.define("cluster-autoscaler", &ours);

    let _server = shell.start(&server, |command| laptop.connect(command));
    let _autoscaler = shell.start(autoscaler, |command| laptop.connect(command));
    create_pod(&client, "workers").await;
    let node = node_of_pod(&client).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("job", &DeleteParams::default().grace_period(0)).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let name = node.metadata.name.unwrap();
    until("its node goes", async || nodes.get_opt(&name).await.unwrap().is_none()).await;
}
