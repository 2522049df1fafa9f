//! Volumes of pods whose containers are processes.

use std::path::Path;
use std::time::Duration;

use ::cluster::LocalAddresses;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use kube::Resource;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, LogParams, Patch, PatchParams, PostParams,
};
use kubelet::{Launcher, Local};
use serde_json::{Value, json};

use super::{Machine, local, machine, phase, shell};

/// Creates an object, unless it exists.
async fn store<K: Resource<DynamicType = ()>>(machine: &Machine, object: Value) {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::default_namespaced_with(machine.client.clone(), &kind);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    if api.get_opt(object.metadata.name.as_deref().unwrap()).await.unwrap().is_none() {
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// A pod with one container that runs a script.
fn pod(script: &str, volumes: &Value, mounts: &Value) -> Value {
    let mut container = shell("c", script);
    container["volumeMounts"] = mounts.clone();
    json!({"restartPolicy": "Never", "volumes": volumes, "containers": [container]})
}

#[tokio::test]
async fn the_content_of_objects_is_mounted_at_paths_that_do_not_exist_on_this_machine() {
    let machine = machine(local()).await;
    store::<ConfigMap>(
        &machine,
        json!({"metadata": {"name": "m"}, "data": {"one": "1\n", "two": "2\n"}, "binaryData": {"raw": "AAE="}}),
    )
    .await;
    store::<Secret>(&machine, json!({"metadata": {"name": "s"}, "stringData": {"key": "hush\n"}}))
        .await;
    let volumes = json!([
        {"name": "config", "configMap": {"name": "m"}},
        {"name": "items", "configMap": {"name": "m", "items": [{"key": "two", "path": "deep/zwei", "mode": 256}]}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "fields", "downwardAPI": {"items": [
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        ]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "m", "items": [{"key": "one", "path": "one"}]}},
            {"secret": {"name": "none", "optional": true}},
        ]}},
    ]);
    let mounts = json!([
        {"name": "config", "mountPath": "/plimsoll-test/config"},
        {"name": "config", "mountPath": "/plimsoll-test/one", "subPath": "one"},
        {"name": "items", "mountPath": "/etc/plimsoll-test/items"},
        {"name": "secret", "mountPath": "/run/plimsoll-test-secret"},
        {"name": "fields", "mountPath": "/plimsoll-test-fields"},
        {"name": "all", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]);
    let script = "cd /plimsoll-test && cat config/one one && wc -c < config/raw \
        && cat /etc/plimsoll-test/items/deep/zwei && test -s /etc/passwd \
        && cat /run/plimsoll-test-secret/key && stat -Lc %a /run/plimsoll-test-secret/key \
        && cat /plimsoll-test-fields/name && echo \
        && cd /var/run/secrets/kubernetes.io/serviceaccount && cat one && ls \
        && ! touch /plimsoll-test/config/new 2> /dev/null && echo read-only";
    machine.create("a", pod(script, &volumes, &mounts)).await;
    let ended =
        machine.until("a", "ended", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await;
    let logs = machine.logs("a").await;
    assert_eq!(logs, "1\n1\n2\n2\nhush\n400\na\n1\none\nread-only\n", "{:?}", ended.status);
    for path in ["/plimsoll-test", "/etc/plimsoll-test", "/run/plimsoll-test-secret"] {
        assert!(!Path::new(path).exists(), "{path} is only visible to the pod");
    }
}

#[tokio::test]
async fn containers_share_an_empty_directory_and_run_programs_from_it() {
    let machine = machine(local()).await;
    let volumes = json!([{"name": "work", "emptyDir": {}}]);
    let mounts = json!([{"name": "work", "mountPath": "/plimsoll-work"}]);
    let script = "printf '#!/bin/sh\\necho ran in $PWD' > /plimsoll-work/run.sh; chmod +x /plimsoll-work/run.sh";
    let mut spec = pod("", &volumes, &mounts);
    let mut init = shell("first", script);
    init["volumeMounts"] = mounts.clone();
    spec["initContainers"] = json!([init]);
    spec["containers"][0]["command"] = json!(["/plimsoll-work/run.sh"]);
    spec["containers"][0]["workingDir"] = "/plimsoll-work/inner".into();
    spec["containers"][0]["volumeMounts"] = json!([
        {"name": "work", "mountPath": "/plimsoll-work", "readOnly": true},
        {"name": "work", "mountPath": "/plimsoll-other", "subPath": "inner"},
    ]);
    machine.create("a", spec).await;
    machine.until("a", "ended", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await;
    let of_main = LogParams { container: Some("c".to_owned()), ..LogParams::default() };
    let logs = machine.pods().logs("a", &of_main).await.unwrap();
    assert_eq!(logs.trim(), "ran in /plimsoll-work/inner");
}

#[tokio::test]
async fn a_pod_waits_for_a_missing_object_and_reports_it() {
    let machine = machine(local()).await;
    let volumes = json!([{"name": "config", "configMap": {"name": "late"}}]);
    let mounts = json!([{"name": "config", "mountPath": "/plimsoll-config"}]);
    machine.create("a", pod("cat /plimsoll-config/k", &volumes, &mounts)).await;
    machine
        .until_event(
            "MountVolume.SetUp failed for volume \"config\" : configmap \"late\" not found",
        )
        .await;
    machine
        .until("a", "waited", |pod| {
            let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            let waiting = statuses.and_then(|s| s.first()?.state.as_ref()?.waiting.as_ref());
            waiting.and_then(|w| w.reason.as_deref()) == Some("ContainerCreating")
                && phase(pod) == "Pending"
        })
        .await;
    store::<ConfigMap>(&machine, json!({"metadata": {"name": "late"}, "data": {"k": "v\n"}})).await;
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "v\n");
}

#[tokio::test]
async fn missing_keys_and_unsupported_types_are_reported() {
    let machine = machine(local()).await;
    store::<ConfigMap>(&machine, json!({"metadata": {"name": "m"}, "data": {"k": "v"}})).await;
    let mounts = json!([{"name": "v", "mountPath": "/plimsoll-v"}]);
    let items = json!([{"key": "nope", "path": "nope"}]);
    let missing = json!([{"name": "v", "configMap": {"name": "m", "items": items}}]);
    machine.create("a", pod("", &missing, &mounts)).await;
    machine.until_event("references non-existent config key: nope").await;
    let nfs = json!([{"name": "v", "nfs": {"server": "s", "path": "/"}}]);
    machine.create("b", pod("", &nfs, &mounts)).await;
    machine
        .until_event("volumes of type nfs are not supported here: use emptyDir, configMap")
        .await;
    let sources = json!([{"serviceAccountToken": {"path": "token"}}]);
    let token = json!([{"name": "v", "projected": {"sources": sources}}]);
    let mut unknown = pod("", &token, &mounts);
    unknown["serviceAccountName"] = "nobody".into();
    machine.create("c", unknown).await;
    let missing = "failed to fetch token: serviceaccounts \"nobody\" not found";
    machine.until_event(&format!("SetUp failed for volume \"v\" : {missing}")).await;
    for name in ["a", "b", "c"] {
        machine.pods().delete(name, &DeleteParams::default()).await.unwrap();
        machine.until_gone(name).await;
    }
}

#[tokio::test]
async fn files_follow_their_object() {
    let machine = machine(local()).await;
    store::<ConfigMap>(&machine, json!({"metadata": {"name": "m"}, "data": {"k": "old"}})).await;
    let volumes = json!([{"name": "config", "configMap": {"name": "m"}}]);
    let mounts = json!([{"name": "config", "mountPath": "/plimsoll-config"}]);
    let script =
        "while ! grep -q new /plimsoll-config/k; do sleep 0.05; done; cat /plimsoll-config/k";
    machine.create("a", pod(script, &volumes, &mounts)).await;
    machine.until_phase("a", "Running").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(machine.client.clone());
    let patch = Patch::Merge(json!({"data": {"k": "new"}}));
    maps.patch("m", &PatchParams::default(), &patch).await.unwrap();
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "new");
}

/// Requests its own identity from the API server, as any client in a pod can, and prints it.
const IN_CLUSTER: &str = "
import json, os, ssl, urllib.request
files = '/var/run/secrets/kubernetes.io/serviceaccount/'
read = lambda name: open(files + name).read()
host, port = os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT']
review = f'https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews'
headers = {'Authorization': 'Bearer ' + read('token'), 'Content-Type': 'application/json'}
request = urllib.request.Request(review, data=b'{}', headers=headers)
trust = ssl.create_default_context(cafile=files + 'ca.crt')
user = json.load(urllib.request.urlopen(request, context=trust))['status']['userInfo']
print(user['username'], user['extra']['authentication.kubernetes.io/pod-name'][0], read('namespace'))
";

async fn a_client_in_a_pod_is_known_by_its_token(local: Local) {
    let machine = machine(Local { service_proxy: true, ..local }).await;
    store::<ServiceAccount>(&machine, json!({"metadata": {"name": "games"}})).await;
    let _listening = machine.engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let services: Api<Service> = Api::default_namespaced(machine.client.clone());
    let mut is_served = false;
    for _ in 0..1200 {
        let service = services.get("kubernetes").await.unwrap();
        is_served = LocalAddresses::from_service(&service).get(443, "TCP").is_some();
        if is_served {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_served, "the proxy serves the API server");
    // As admission on a cluster adds it to each pod.
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    let volumes = json!([{"name": "kube-api-access", "projected": {"sources": sources}}]);
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mounts = json!([{"name": "kube-api-access", "mountPath": path, "readOnly": true}]);
    let mut spec = pod("", &volumes, &mounts);
    spec["containers"][0]["command"] = json!(["python3", "-c", IN_CLUSTER]);
    spec["serviceAccountName"] = "games".into();
    machine.create("a", spec).await;
    machine.until("a", "ended", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await;
    let logs = machine.logs("a").await;
    assert_eq!(logs, "system:serviceaccount:default:games a default\n");
}

#[tokio::test]
async fn a_client_in_a_pod_is_known_by_its_token_in_its_own_network() {
    a_client_in_a_pod_is_known_by_its_token(local()).await;
}

#[tokio::test]
async fn a_client_in_a_pod_is_known_by_its_token_on_the_hosts_network() {
    a_client_in_a_pod_is_known_by_its_token(Local { host_network: true, ..local() }).await;
}

#[tokio::test]
async fn files_of_the_downward_api_follow_labels_and_annotations() {
    let machine = machine(local()).await;
    let field =
        |name: &str| json!({"path": name, "fieldRef": {"fieldPath": format!("metadata.{name}")}});
    let items = json!([field("labels"), field("annotations")]);
    let volumes = json!([{"name": "fields", "downwardAPI": {"items": items}}]);
    let mounts = json!([{"name": "fields", "mountPath": "/plimsoll-fields"}]);
    let script = "cd /plimsoll-fields; until grep -q mode labels; do sleep 0.05; done; cat labels; echo; \
        until grep -q map annotations; do sleep 0.05; done; cat annotations";
    machine.create("a", pod(script, &volumes, &mounts)).await;
    machine.until_phase("a", "Running").await;
    for metadata in
        [json!({"labels": {"mode": "duel"}}), json!({"annotations": {"map": "harbour"}})]
    {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        machine.pods().patch("a", &PatchParams::default(), &patch).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "mode=\"duel\"\nmap=\"harbour\"");
}

#[tokio::test]
async fn without_private_mounts_variables_hold_the_paths_of_volumes() {
    // A launcher that cannot mount anything.
    let script = format!(
        "test -z \"$PLIMSOLL_MOUNTS\" || {{ echo not permitted >&2; exit 1; }}; exec {} \"$@\"",
        env!("CARGO_BIN_EXE_plimsoll-launch")
    );
    let args = ["-c", &script, "launch"].map(Into::into).to_vec();
    let launcher = Launcher { program: "sh".into(), args };
    let machine = machine(Local { launcher, ..local() }).await;
    store::<ConfigMap>(&machine, json!({"metadata": {"name": "m"}, "data": {"k": "v\n"}})).await;
    let volumes = json!([{"name": "my-config", "configMap": {"name": "m"}}]);
    let mounts = json!([{"name": "my-config", "mountPath": "/plimsoll-config"}]);
    machine.create("a", pod("cat $PLIMSOLL_VOLUME_MY_CONFIG/k", &volumes, &mounts)).await;
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "v\n");
    machine.until_event("such as PLIMSOLL_VOLUME_MY_CONFIG").await;
}
