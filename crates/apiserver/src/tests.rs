//! Objects that an earlier version stored and that would be rejected today.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::Service as _;

use crate::store::{Body, History, Store, Write};
use crate::{ApiServer, Clock, Settings};

/// Returns objects nested too deeply to be read.
fn deep() -> Value {
    (0..200).fold(json!(1), |inner, _| json!({"a": inner}))
}

/// Writes objects to the store directly, without validation.
async fn store(dir: &std::path::Path, objects: &[(&str, &str, Value)]) {
    let store =
        Store::on_disk(dir, Clock::system(), History::default(), &process::Supervisor::new())
            .unwrap();
    for (collection, key, object) in objects {
        let (collection, key) = ((*collection).into(), (*key).into());
        let write = Write { collection, key, expected: None, body: Some(Body::new(object)) };
        store.write(write).await.unwrap();
    }
}

/// Sends a request, and returns the code, the body and the warnings.
async fn send(server: &ApiServer, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/merge-patch+json");
    let body = Full::new(bytes::Bytes::from(body.to_owned()));
    let reply = server.service().call(request.body(body).unwrap()).await.unwrap();
    let warnings = reply.headers().get_all("warning").iter().filter_map(|w| w.to_str().ok());
    let warnings = warnings.collect::<Vec<_>>().join("\n");
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap(), warnings)
}

#[tokio::test]
async fn an_unreadable_object_neither_hides_the_others_nor_prevents_the_start() {
    const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
    let dir = tempfile::tempdir().unwrap();
    let managed =
        json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": deep()}]);
    let map = |name: &str, managed: Value| json!({"metadata": {"name": name, "namespace": "default", "uid": name, "managedFields": managed}});
    let definition = json!({"metadata": {"name": "deeps.example.dev", "uid": "d"},
        "spec": {"versions": [{"schema": {"openAPIV3Schema": deep()}}]}});
    let objects = [
        ("configmaps", "default/deep", map("deep", managed.clone())),
        ("configmaps", "default/plain", map("plain", json!([]))),
        ("configmaps", "gone/deep", map("deep", managed)),
        (CRDS, "deeps.example.dev", definition),
    ];
    store(dir.path(), &objects).await;
    let server = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    for form in [maps.to_owned(), format!("{maps}?fieldSelector=metadata.name!=other")] {
        let (code, list, warnings) = send(&server, "GET", &form, "").await;
        assert_eq!(code, 200, "{list}");
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]);
        let items: Vec<_> = items.filter(|name| *name != "kube-root-ca.crt").collect();
        assert_eq!(items, ["plain"]);
        assert!(warnings.contains("default/deep"), "{warnings}");
    }
    let watch = format!("{maps}?watch=1&timeoutSeconds=1");
    let (_, events, _) = send(&server, "GET", &watch, "").await;
    assert!(events.contains(r#""name":"plain""#) && !events.contains(r#""name":"deep""#));
    let one = format!("{maps}/deep");
    for (method, body) in [("GET", ""), ("PATCH", r#"{"data":{"a":"b"}}"#)] {
        let (code, status, _) = send(&server, method, &one, body).await;
        let status: Value = serde_json::from_str(&status).unwrap();
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")), "{method}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("configmaps \"deep\" cannot be read"), "{message}");
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for path in [one, format!("{definitions}/deeps.example.dev")] {
        assert_eq!(send(&server, "DELETE", &path, "").await.0, 200, "{path}");
        assert_eq!(send(&server, "GET", &path, "").await.0, 404, "{path}");
    }
    let (code, _, _) = send(&server, "GET", "/apis/agones.dev/v1/fleets", "").await;
    assert_eq!(code, 200, "other definitions are served");
    let in_gone = "/api/v1/namespaces/gone/configmaps";
    assert_eq!(send(&server, "DELETE", in_gone, "").await.0, 200);
    assert_eq!(send(&server, "GET", &format!("{in_gone}/deep"), "").await.0, 404);
}

#[tokio::test]
async fn an_object_over_the_size_limit_can_be_read_shrunk_and_deleted() {
    const NODE: &str = "/api/v1/nodes/large";
    const STATUS: &str = "/api/v1/nodes/large/status";
    let dir = tempfile::tempdir().unwrap();
    let metadata = json!({"name": "large", "uid": "l", "finalizers": ["example.dev/wait"]});
    let large = "x".repeat(4 << 20);
    let status = json!({"images": [{"names": [large]}], "volumesInUse": [large, large]});
    let node = json!({"metadata": metadata, "spec": {}, "status": status});
    store(dir.path(), &[("nodes", "large", node)]).await;
    let server = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let (code, read, _) = send(&server, "GET", NODE, "").await;
    assert!(code == 200 && read.len() > 12 << 20);
    let larger = r#"{"status":{"nodeInfo":{"kernelVersion":"x"}}}"#;
    let (code, refused, _) = send(&server, "PATCH", STATUS, larger).await;
    assert_eq!(code, 413, "{refused}");
    for (method, path, body, code) in [
        // Smaller, but still larger than the limit.
        ("PATCH", STATUS, r#"{"status":{"images":null}}"#, 200),
        ("DELETE", NODE, "", 200),
        ("GET", NODE, "", 200),
        ("PATCH", NODE, r#"{"metadata":{"finalizers":null}}"#, 200),
        ("GET", NODE, "", 404),
    ] {
        let answer = send(&server, method, path, body).await;
        assert_eq!(answer.0, code, "{method} {path} {body}: {:.200}", answer.1);
    }
}
