//! The admission webhooks behind the real API server: it fills in and refuses as the embedded engine does.

use std::path::Path;
use std::time::Duration;

use api::agones::Fleet;
use base64::Engine as _;
use engine::{Engine, Settings};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use plimsoll_serve::tls::{Certificates, Files};
use plimsoll_serve::{admission, listen};
use serde_json::{Value, json};

use crate::allocator::real;

/// A server of webhooks on loopback, with a certificate of its own.
struct Webhooks {
    url: String,
    ca_bundle: String,
    task: tokio::task::JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl Webhooks {
    async fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(files.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(files.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let certificates = Certificates::of_files(Files::in_folder(files.path())).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let ca_bundle = base64::engine::general_purpose::STANDARD.encode(made.cert.pem());
        let app = admission::router();
        let serving = listen::serve(listener, Some(certificates), app, std::future::pending());
        let task = tokio::spawn(serving);
        Self { url, ca_bundle, task, _files: files }
    }

    /// Asks about the fleets of one namespace only, so that no other test meets these webhooks.
    fn webhook(&self, namespace: &str, path: &str) -> Value {
        json!({
            "name": "fleets.plimsoll.dev", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": {"url": format!("{}{path}", self.url), "caBundle": self.ca_bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{
                "apiGroups": ["agones.dev"], "apiVersions": ["v1"], "resources": ["fleets"],
                "operations": ["CREATE", "UPDATE"],
            }],
        })
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn fleet(name: &str, policy: &Value, port: Value) -> Fleet {
    let container = json!({"name": "game", "image": "game:1"});
    let template = json!({"spec": {"containers": [container]}});
    let spec = json!({"ports": [port], "template": template});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"replicas": 0, "strategy": policy, "template": {"spec": spec}},
    }))
    .unwrap()
}

fn good(name: &str) -> Fleet {
    fleet(name, &json!({}), json!({"name": "game", "containerPort": 7654}))
}

/// Two things are wrong with it that the schema does not see.
fn bad(name: &str) -> Fleet {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "150%"}});
    fleet(name, &strategy, json!({"name": "game", "portPolicy": "Dynamic"}))
}

async fn prepare(client: &Client, namespace: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds/fleets.agones.dev.yaml");
    let crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let resource = ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = PatchParams::apply("plimsoll-test").force();
    crds.patch("fleets.agones.dev", &params, &Patch::Apply(&crd)).await.unwrap();
    let mut object = Namespace::default();
    object.metadata.name = Some(namespace.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &object).await.unwrap();
}

/// Gives the fields that a refusal names, with what it says of each.
fn causes(refused: Result<Fleet, kube::Error>) -> Vec<(String, String)> {
    match refused {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{status:?}");
            let causes = status.details.unwrap().causes;
            causes.into_iter().map(|cause| (cause.field, cause.message)).collect()
        }
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[tokio::test]
async fn the_real_api_server_fills_in_and_refuses_as_the_engine_does() {
    let Some(kubeconfig) = real::from_env("PLIMSOLL_TEST_KUBECONFIG") else { return };
    let client = real::connect(&kubeconfig).await;
    let namespace = format!("admission-{:08x}", fastrand::u32(..));
    prepare(&client, &namespace).await;
    let webhooks = Webhooks::start().await;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = |path| json!({"metadata": {"name": namespace}, "webhooks": [webhooks.webhook(&namespace, path)]});
    let to = PostParams::default();
    let mutate = serde_json::from_value(configuration("/mutate")).unwrap();
    let validate = serde_json::from_value(configuration("/validate")).unwrap();
    mutating.create(&to, &mutate).await.unwrap();
    validating.create(&to, &validate).await.unwrap();

    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let (here, there): (Api<Fleet>, Api<Fleet>) =
        (Api::default_namespaced(engine.client()), Api::namespaced(client.clone(), &namespace));
    // The API server takes up new webhooks, and a new kind, after a moment.
    let taken_up = async {
        for attempt in 0.. {
            let made = there.create(&to, &good(&format!("try-{attempt}"))).await;
            if made.is_ok_and(|fleet| fleet.annotations().contains_key("agones.dev/sdk-version")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), taken_up).await.expect("webhooks are taken up");
    let filled = there.create(&to, &good("good")).await.unwrap();
    let alike = here.create(&to, &good("good")).await.unwrap();
    assert_eq!(filled.spec, alike.spec);
    let refusals = (there.create(&to, &bad("bad")).await, here.create(&to, &bad("bad")).await);
    let (refused, alike) = (causes(refusals.0), causes(refusals.1));
    assert_eq!(refused, alike);
    assert_eq!(refused.len(), 2, "{refused:?}");
    // A change is asked about as a creation is.
    let change =
        Patch::Merge(json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "150%"}}}}));
    let changed = there.patch("good", &PatchParams::default(), &change).await;
    assert_eq!(causes(changed)[0].0, "spec.strategy.rollingUpdate.maxSurge");

    mutating.delete(&namespace, &DeleteParams::default()).await.unwrap();
    validating.delete(&namespace, &DeleteParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
}
