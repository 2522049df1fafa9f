//! Limits on timeouts that a client chooses.

use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower::Service as _;

use super::{JSON, get, send};

#[tokio::test]
async fn a_watch_may_ask_for_more_seconds_than_there_are() {
    let engine = crate::ephemeral().await;
    for seconds in [i64::MAX.to_string(), "9999999999999".to_owned()] {
        let path = format!("/api/v1/namespaces?watch=1&timeoutSeconds={seconds}");
        let request = Request::get(path).header(header::ACCEPT, JSON);
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        let reply = engine.service().call(request).await.unwrap();
        assert_eq!(reply.status(), 200);
        let first = reply.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(br#"{"type":"ADDED""#));
    }
    let refused =
        get(&engine, "/api/v1/namespaces?watch=1&timeoutSeconds=18446744073709551615").await;
    assert_eq!(refused.code, 400);
}

#[tokio::test]
async fn grace_periods_may_be_longer_than_there_is_time() {
    let engine = crate::ephemeral().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "a"}, "spec": {
        "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX,
        "containers": [{"name": "c", "image": "i", "terminationMessagePolicy": "File"}]}});
    let made = send(&engine, "POST", pods, JSON, pod.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let one = format!("{pods}/a");
    for grace in [i64::MAX, i64::MAX - 1, 30, i64::MIN] {
        let options = json!({"gracePeriodSeconds": grace}).to_string();
        let going = send(&engine, "DELETE", &one, JSON, options).await;
        assert_eq!(going.code, 200, "{grace}: {}", going.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_that_owns_itself_does_not_end_the_process() {
    let engine = crate::ephemeral().await;
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": labels}, "template": template}});
    let made = send(&engine, "POST", sets, JSON, set.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a",
        "uid": made.body["metadata"]["uid"], "controller": true});
    let owned = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let patched = send(&engine, "PATCH", &format!("{sets}/a"), super::MERGE_PATCH, owned).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let pod = json!({"metadata": {"name": "a", "labels": labels, "ownerReferences": [owner]},
        "spec": template["spec"]});
    let made =
        send(&engine, "POST", "/api/v1/namespaces/default/pods", JSON, pod.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "a"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}});
    let made = send(&engine, "POST", budgets, JSON, budget.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    crate::keep::until("the budget is worked out", || async {
        let budget = get(&engine, &format!("{budgets}/a")).await;
        budget.body["status"]["expectedPods"] == 3
    })
    .await;
}
