//! Tokens of service accounts: issuing, permissions and expiry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use plimsoll_apiserver::{ApiServer, Listening, Settings};
use process::Clock;
use serde_json::{Value, json};

/// The audience of tokens for the API server.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

struct Server {
    engine: ApiServer,
    listening: Listening,
    admin: Client,
}

impl Server {
    async fn start(settings: Settings) -> Self {
        let engine = ApiServer::open(settings).await.unwrap();
        let listening = engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let server = Self { admin: engine.client(), engine, listening };
        let accounts: Api<ServiceAccount> = Api::default_namespaced(server.admin.clone());
        for _ in 0..600 {
            if accounts.get_opt("default").await.unwrap().is_some() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the namespace has no service account");
    }

    /// Returns a client that sends a token over TLS.
    async fn client(&self, token: &str) -> Client {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        self.engine.write_kubeconfig(&path, &self.listening).unwrap();
        let kubeconfig = Kubeconfig::read_from(&path).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.auth_info.token = Some(token.to_owned().into());
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// Requests a token as the administrator, and returns the answer.
    async fn request_token(&self, spec: Value) -> (u16, Value) {
        send(&self.admin, "POST", TOKEN, json!({"spec": spec})).await
    }

    async fn token(&self, spec: Value) -> String {
        let (code, answer) = self.request_token(spec).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn create_pod(&self, account: &str) -> Pod {
        let pods: Api<Pod> = Api::default_namespaced(self.admin.clone());
        let spec = json!({
            "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}],
        });
        let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec}));
        pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap()
    }

    async fn delete_pod(&self) {
        let pods: Api<Pod> = Api::default_namespaced(self.admin.clone());
        pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

async fn send(client: &Client, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(&body).unwrap() };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json").body(body).unwrap();
    match client.request::<Value>(request).await {
        Ok(answer) => (if method == "POST" { 201 } else { 200 }, answer),
        Err(kube::Error::Api(status)) => (status.code, json!({"message": status.message})),
        Err(other) => panic!("{method} {path}: {other}"),
    }
}

/// Returns the user of a token as the server knows it; `None`: the token is refused.
async fn user(server: &Server, token: &str) -> Option<Value> {
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    match send(&server.client(token).await, "POST", review, json!({})).await {
        (201, answer) => Some(answer["status"]["userInfo"].clone()),
        (401, _) => None,
        other => panic!("{other:?}"),
    }
}

async fn review(server: &Server, spec: Value) -> Value {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = send(&server.admin, "POST", path, json!({"spec": spec})).await;
    answer["status"].clone()
}

#[tokio::test]
async fn a_token_identifies_its_service_account_and_its_pod() {
    let server = Server::start(crate::settings()).await;
    let pod = server.create_pod("default").await;
    let uid = pod.metadata.uid.unwrap();
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let spec = json!({"expirationSeconds": 3607, "boundObjectRef": bound});
    let (_, answer) = server.request_token(spec).await;
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(answer["spec"]["audiences"], json!([AUDIENCE]));
    assert_eq!(answer["spec"]["expirationSeconds"], 3607);
    let token = answer["status"]["token"].as_str().unwrap();
    let known = user(&server, token).await.expect("the token is valid");
    assert_eq!(known["username"], "system:serviceaccount:default:default");
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(known["groups"], json!(groups));
    assert_eq!(known["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(known["extra"]["authentication.kubernetes.io/pod-uid"], json!([uid]));
    let status = review(&server, json!({"token": token})).await;
    assert_eq!((&status["authenticated"], &status["user"]), (&json!(true), &known));
    assert_eq!(status["audiences"], json!([AUDIENCE]));
    server.delete_pod().await;
    assert_eq!(user(&server, token).await, None, "its pod is gone");
    server.create_pod("default").await;
    assert_eq!(user(&server, token).await, None, "another pod has its name");
    assert_eq!(review(&server, json!({"token": token})).await["authenticated"], Value::Null);
}

#[tokio::test]
async fn a_service_account_may_do_what_roles_allow_and_nothing_else() {
    let server = Server::start(crate::settings()).await;
    let client = server.client(&server.token(json!({})).await).await;
    for path in ["/version", "/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/readyz"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request_text(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let access = |namespace: &'static str| {
        let client = client.clone();
        async move {
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            let attributes = json!({"verb": "list", "resource": "pods", "namespace": namespace});
            let body = json!({"spec": {"resourceAttributes": attributes}});
            send(&client, "POST", path, body).await.1["status"]["allowed"].clone()
        }
    };
    let (code, refused) = send(&client, "GET", PODS, Value::Null).await;
    let expected = "pods is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"pods\" \
                    in API group \"\" in the namespace \"default\"";
    assert_eq!((code, refused["message"].as_str()), (403, Some(expected)));
    assert_eq!(access("default").await, json!(false));

    let rules = json!([
        {"verbs": ["list", "patch"], "apiGroups": [""], "resources": ["pods", "configmaps"]},
        {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]},
    ]);
    let role = json!({"metadata": {"name": "reader"}, "rules": rules});
    let subject = json!({"kind": "ServiceAccount", "name": "default", "namespace": "default"});
    let role_ref = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let binding = json!({
        "metadata": {"name": "reads"}, "subjects": [subject], "roleRef": role_ref("Role", "reader"),
    });
    for (path, body) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("{ROLES}/namespaces/default/{path}");
        let (code, answer) = send(&server.admin, "POST", &path, body).await;
        assert_eq!(code, 201, "{answer}");
    }
    assert_eq!(send(&client, "GET", PODS, Value::Null).await.0, 200);
    assert_eq!((access("default").await, access("kube-system").await), (json!(true), json!(false)));
    for path in ["/api/v1/pods", "/api/v1/namespaces/kube-system/pods", "/api/v1/nodes"] {
        assert_eq!(send(&client, "GET", path, Value::Null).await.0, 403, "{path}");
    }
    assert_eq!(send(&client, "POST", TOKEN, json!({})).await.0, 403);
    // A patch that creates an object needs the right to create it.
    let applied = "/api/v1/namespaces/default/configmaps/new?fieldManager=test";
    let request =
        http::Request::patch(applied).header("content-type", "application/apply-patch+yaml");
    let request =
        request.body(b"{apiVersion: v1, kind: ConfigMap, metadata: {name: new}}".to_vec());
    let refused = client.request_text(request.unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("cannot create resource \"configmaps\""), "{refused}");
    // Nor may it give itself more rights.
    let more = json!({
        "metadata": {"name": "more"}, "subjects": [subject],
        "roleRef": role_ref("ClusterRole", "cluster-admin"),
    });
    let path = format!("{ROLES}/namespaces/default/rolebindings");
    assert_eq!(send(&client, "POST", &path, more.clone()).await.0, 403);

    let path = format!("{ROLES}/clusterrolebindings");
    assert_eq!(send(&server.admin, "POST", &path, more).await.0, 201);
    assert_eq!(send(&client, "GET", "/api/v1/nodes", Value::Null).await.0, 200);
}

#[tokio::test]
async fn expired_altered_and_foreign_tokens_are_refused() {
    let now = Arc::new(Mutex::new("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()));
    let clock = Clock::from_fn({
        let now = Arc::clone(&now);
        move || *now.lock().unwrap()
    });
    let server = Server::start(Settings { clock, ..Settings::ephemeral() }).await;
    let token = server.token(json!({"expirationSeconds": 600})).await;
    assert!(user(&server, &token).await.is_some());
    let mut altered = token.clone().into_bytes();
    let middle = token.find('.').unwrap() + 20;
    altered[middle] = if altered[middle] == b'A' { b'B' } else { b'A' };
    let altered = String::from_utf8(altered).unwrap();
    let elsewhere = Server::start(crate::settings()).await;
    let foreign = elsewhere.token(json!({})).await;
    let for_others = server.token(json!({"audiences": ["vault"]})).await;
    for (what, token) in [("altered", &altered), ("foreign", &foreign), ("vault", &for_others)] {
        assert_eq!(user(&server, token).await, None, "{what}");
    }
    let reviewed = review(&server, json!({"token": for_others, "audiences": ["vault", "x"]})).await;
    assert_eq!(reviewed["audiences"], json!(["vault"]));
    let reviewed = review(&server, json!({"token": altered})).await;
    assert_eq!(reviewed, json!({"user": {}, "error": "[invalid bearer token]"}));
    *now.lock().unwrap() += SignedDuration::from_secs(599);
    assert!(user(&server, &token).await.is_some());
    *now.lock().unwrap() += SignedDuration::from_secs(1);
    assert_eq!(user(&server, &token).await, None, "it has expired");
    let reviewed = review(&server, json!({"token": token})).await;
    assert_eq!(reviewed["error"], "[token has expired]");
}

#[tokio::test]
async fn requests_for_tokens_are_checked() {
    let server = Server::start(crate::settings()).await;
    server.create_pod("other").await;
    let pod = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    let missing = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    let unknown = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    for (spec, code, expected) in [
        (json!({"expirationSeconds": 599}), 422, "may not specify a duration less than 10 minutes"),
        (json!({"boundObjectRef": pod("")}), 400, "different serviceaccount name"),
        (json!({"boundObjectRef": pod("x")}), 409, "does not match the UID in record"),
        (json!({"boundObjectRef": missing}), 404, "secrets \"s\" not found"),
        (json!({"boundObjectRef": unknown}), 400, "Kind=Service"),
        (json!({"audiences": "vault"}), 400, "spec of the TokenRequest: invalid type"),
    ] {
        let (found, answer) = server.request_token(spec).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(found == code && message.contains(expected), "{found} {message}");
    }
    let path = TOKEN.replace("/default/token", "/missing/token");
    assert_eq!(send(&server.admin, "POST", &path, json!({})).await.0, 404);
}

#[tokio::test]
async fn tokens_outlive_a_restart_and_not_their_account() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Settings::in_directory(dir.path())).await;
    let token = server.token(json!({})).await;
    drop(server);
    let server = Server::start(Settings::in_directory(dir.path())).await;
    assert!(user(&server, &token).await.is_some());
    let accounts: Api<ServiceAccount> = Api::default_namespaced(server.admin.clone());
    let old = accounts.get("default").await.unwrap().metadata.uid;
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    for _ in 0..600 {
        let new = accounts.get_opt("default").await.unwrap();
        if new.is_some_and(|account| account.metadata.uid != old) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(user(&server, &token).await, None);
}
