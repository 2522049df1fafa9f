//! The admission webhooks with the real API server: it applies defaults and rejects objects as the embedded engine does.

use std::path::Path;
use std::time::Duration;

use api::agones::Fleet;
use engine::{Engine, Settings};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::allocator::real;
use crate::webhooks::Webhooks;

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

/// Returns the fields that a refusal names, with what it says of each.
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
    let rules = json!([{
        "apiGroups": ["agones.dev"], "apiVersions": ["v1"], "resources": ["fleets"],
        "operations": ["CREATE", "UPDATE"],
    }]);
    let to = PostParams::default();
    let installed =
        webhooks.install(&client, &namespace, std::slice::from_ref(&namespace), &rules).await;

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

    installed.remove().await;
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
}
