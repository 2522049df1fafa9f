//! A group that someone else answers for.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use plimsoll_apiserver::{Caller, Delegate};
use tower::service_fn;

use crate::ephemeral;

#[tokio::test]
async fn a_delegated_group_gets_its_requests_with_who_sent_them() {
    let engine = ephemeral().await;
    let service = service_fn(|request: Request<Full<Bytes>>| async move {
        let caller = request.extensions().get::<Caller>().cloned().unwrap();
        let said = format!(
            r#"{{"path":"{}","user":"{}","header":"{}"}}"#,
            request.uri().path(),
            caller.user,
            request.headers()["x-remote-user"].to_str().unwrap()
        );
        Ok::<_, tower::BoxError>(Response::new(Full::new(Bytes::from(said)).boxed_unsync()))
    });
    engine.delegate("allocation.agones.dev", "v1", Delegate::new(service));
    let path = "/apis/allocation.agones.dev/v1/namespaces/default/gameserverallocations";
    let request = Request::post(path).header("X-Remote-User", "someone-else").body(b"{}".to_vec());
    let said: serde_json::Value = engine.client().request(request.unwrap()).await.unwrap();
    assert_eq!(said["path"], path);
    assert_eq!(said["user"], "plimsoll:admin");
    assert_eq!(said["header"], "plimsoll:admin");
}
