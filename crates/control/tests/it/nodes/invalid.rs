//! A NodeAutoscaler that is stored and cannot be read: as by a release that knew other values.

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::*;

/// Returns a client whose lists of NodeAutoscalers have an expander that does not exist, and whose watches of them report nothing.
fn with_unknown_expander(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let uri = request.uri().to_string();
            let is_read = request.method() == http::Method::GET;
            let is_changed = is_read && uri.contains("/nodeautoscalers");
            if is_changed && uri.contains("watch=") {
                return std::future::pending().await;
            }
            let answer = client.send(request).await?;
            if !is_changed {
                return Ok::<_, kube::Error>(answer);
            }
            let (mut parts, body) = answer.into_parts();
            parts.headers.remove("content-length");
            let text = String::from_utf8(body.collect().await?.to_bytes().to_vec()).unwrap();
            let text = text.replace("least-nodes", "unknown");
            Ok(http::Response::from_parts(parts, Body::from(text.into_bytes())))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_autoscaler_that_cannot_be_read_names_the_field() {
    let mut world = World::idle(json!({"expanders": ["least-nodes"]})).await;
    let client = with_unknown_expander(world.client());
    world.tasks.spawn(control(client, world.cluster.settings()));
    let invalid = ("False".to_owned(), "InvalidSpec".to_owned());
    until("it is refused", async || world.active().await.as_ref() == Some(&invalid)).await;
    let autoscalers: Api<NodeAutoscaler> = Api::all(world.client());
    let status = autoscalers.get("default").await.unwrap().status.unwrap();
    let active = status.conditions.iter().find(|condition| condition.type_ == "Active").unwrap();
    assert!(active.message.contains("spec.expanders[0]"), "{}", active.message);
    until("an event reports it", async || world.has_event("default", "InvalidSpec").await).await;
}
