//! A group that is delegated to another service.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use plimsoll_apiserver::{Caller, Delegate};
use tower::service_fn;

use crate::ephemeral;

#[tokio::test]
async fn requests_to_a_delegated_group_carry_the_identity_of_their_client() {
    let engine = ephemeral().await;
    let service = service_fn(|request: Request<Full<Bytes>>| async move {
        let caller = request.extensions().get::<Caller>().cloned().unwrap();
        let body = format!(
            r#"{{"path":"{}","user":"{}","header":"{}"}}"#,
            request.uri().path(),
            caller.user,
            request.headers()["x-remote-user"].to_str().unwrap()
        );
        Ok::<_, tower::BoxError>(Response::new(Full::new(Bytes::from(body)).boxed_unsync()))
    });
    engine.delegate("allocation.agones.dev", "v1", Delegate::new(service));
    let path = "/apis/allocation.agones.dev/v1/namespaces/default/gameserverallocations";
    let request = Request::post(path).header("X-Remote-User", "someone-else").body(b"{}".to_vec());
    let answer: serde_json::Value = engine.client().request(request.unwrap()).await.unwrap();
    assert_eq!(answer["path"], path);
    assert_eq!(answer["user"], "plimsoll:admin");
    assert_eq!(answer["header"], "plimsoll:admin");
}
