//! A separate namespace on the real API server, if there is one.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;

/// A namespace on a real API server that knows our kinds.
pub(crate) struct Real {
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespace: String,
}

impl Real {
    /// Makes a namespace; `None`, with a line that says so, where there is no real API server.
    pub(crate) async fn new() -> Option<Self> {
        let kubeconfig = from_env("PLIMSOLL_TEST_KUBECONFIG")?;
        let client = connect(&kubeconfig).await;
        install(&client, &KINDS.map(str::to_owned)).await;
        let namespace = format!("allocation-{:08x}", fastrand::u32(..));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.clone());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        Some(Self { client, kubeconfig, namespace })
    }

    /// Lets go of the game servers, which no controller will.
    pub(crate) async fn release_game_servers(&self) {
        let resource = ApiResource::erase::<api::agones::GameServer>(&());
        let servers: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let Ok(all) = servers.list(&Default::default()).await else { return };
        for name in all.items.iter().filter_map(|server| server.metadata.name.as_deref()) {
            let free = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
            let _ = servers.patch(name, &PatchParams::default(), &free).await;
        }
    }

    pub(crate) async fn clean_up(self) {
        let namespaces: Api<Namespace> = Api::all(self.client);
        let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
    }
}

/// Reads what `cargo xtask test` sets; a test that goes without is skipped, but not on CI.
pub(crate) fn from_env(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "on CI nothing is skipped: {name} is not set");
        eprintln!("skipped: {name} is not set; `cargo xtask test` sets it");
    }
    found
}

/// The kinds that allocations need.
const KINDS: [&str; 4] = [
    "gameservers.agones.dev",
    "gameserversets.agones.dev",
    "fleets.agones.dev",
    "gameserverallocationpolicies.multicluster.agones.dev",
];

/// Names the definitions of every kind that is stored.
pub(crate) fn every_kind() -> Vec<String> {
    let stored = api::KINDS.iter().filter(|kind| kind.crd.is_some());
    stored.map(|kind| format!("{}.{}", kind.plural, kind.group)).collect()
}

/// Installs kinds, and waits until they are served.
pub(crate) async fn install(client: &Client, names: &[String]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let resource = ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for name in names {
        let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        let crd: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let params = PatchParams::apply("plimsoll-test").force();
        crds.patch(name, &params, &Patch::Apply(&crd)).await.unwrap();
        let established = async {
            loop {
                let crd = crds.get(name).await.unwrap();
                let conditions = crd.data["status"]["conditions"].as_array().cloned();
                let is_it =
                    |c: &serde_json::Value| c["type"] == "Established" && c["status"] == "True";
                if conditions.unwrap_or_default().iter().any(is_it) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), established).await.unwrap();
    }
}

/// Connects as a kubeconfig says.
pub(crate) async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}
