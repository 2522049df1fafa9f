//! Clients that stop, lose their connection, count requests, or act as the admission webhooks of a cluster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

/// Returns a client that stops at its `life`-th request: that one is sent or not, and no response arrives.
pub(crate) fn mortal(client: Client, life: u32, is_sent: bool) -> (Client, Arc<Notify>) {
    let death = Arc::new(Notify::new());
    let (notified, count) = (Arc::clone(&death), Arc::new(AtomicU32::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, notified, count) = (client.clone(), Arc::clone(&notified), Arc::clone(&count));
        async move {
            let number = count.fetch_add(1, Ordering::Relaxed);
            if number < life {
                return client.send(request).await;
            }
            if number == life && is_sent {
                drop(client.send(request).await);
            }
            notified.notify_one();
            std::future::pending().await
        }
    });
    (Client::new(service, "default"), death)
}

/// The connection to an API server, which can be lost and restored.
#[derive(Clone)]
pub(crate) struct Connection(Arc<watch::Sender<bool>>);

impl Connection {
    /// Loses the connection: requests fail, the answers to those in progress are lost, and watches end.
    pub(crate) fn lose(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn restore(&self) {
        self.0.send_replace(false);
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&self) {
        self.0.subscribe().wait_for(|is_lost| *is_lost).await.unwrap();
    }
}

/// Returns a client whose connection is lost at its `at`-th request, which is carried out.
pub(crate) fn disconnected(client: Client, at: u32) -> (Client, Connection) {
    let connection = Connection(Arc::new(watch::Sender::new(false)));
    let (kept, count) = (connection.clone(), Arc::new(AtomicU32::new(0)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, connection, count) = (client.clone(), connection.clone(), Arc::clone(&count));
        async move {
            let refused = || kube::Error::Service("connection refused".into());
            let mut is_lost = connection.0.subscribe();
            if *is_lost.borrow() {
                return Err(refused());
            }
            // What was sent is carried out, also when its answer is lost.
            let sent = tokio::spawn(async move { client.send(request).await });
            if count.fetch_add(1, Ordering::Relaxed) == at {
                connection.lose();
            }
            tokio::select! {
                biased;
                _ = is_lost.wait_for(|is_lost| *is_lost) => Err(refused()),
                answer = sent => {
                    let lost = Box::pin(async move { connection.lost().await });
                    let until_lost = |body| StreamBody::new(BodyStream::new(body).take_until(lost));
                    Ok(answer.unwrap()?.map(until_lost))
                }
            }
        }
    });
    (Client::new(service, "default"), kept)
}

/// Returns a client that reads a text in the place of another one of the same length.
pub(crate) fn misreading(client: Client, stored: &'static str, read: &'static str) -> Client {
    assert_eq!(stored.len(), read.len(), "the length of an answer stays");
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let answer = client.send(request).await?;
            let change = move |text: &[u8]| String::from_utf8_lossy(text).replace(stored, read);
            let body = |body: Body| {
                body.map_frame(move |frame| {
                    frame.map_data(|data| change(&data).into_bytes().into())
                })
            };
            Ok::<_, kube::Error>(answer.map(body))
        }
    });
    Client::new(service, "default")
}

/// Returns a client that counts the writes that succeed, by method and kind.
pub(crate) fn counted(client: Client) -> (Client, Arc<Mutex<BTreeMap<String, u32>>>) {
    let counts = Arc::new(Mutex::new(BTreeMap::new()));
    let kept = Arc::clone(&counts);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, counts) = (client.clone(), Arc::clone(&kept));
        async move {
            let what = format!("{} {}", request.method(), plural(request.uri().path()));
            let is_write = request.method() != Method::GET;
            let answer = client.send(request).await?;
            if is_write && answer.status().is_success() {
                *counts.lock().unwrap().entry(what).or_default() += 1;
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    (Client::new(service, "default"), counts)
}

/// Some of the kinds that controllers follow.
pub(crate) const FOLLOWED: [&str; 6] =
    ["fleets", "gameserversets", "gameservers", "pods", "nodes", "fleetautoscalers"];

/// Returns a client that counts the lists of these kinds.
pub(crate) fn counting_lists(
    client: Client,
    kinds: &'static [&'static str],
) -> (Client, Arc<AtomicU32>) {
    let lists = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, counter) = (client.clone(), Arc::clone(&counter));
        async move {
            let is_collection = kinds.iter().any(|kind| request.uri().path().ends_with(kind));
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            if request.method() == Method::GET && is_collection && !is_watch {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            client.send(request).await
        }
    });
    (Client::new(service, "default"), lists)
}

/// Returns a client whose lists also contain `object`: those of a kind, with `part` in their query.
pub(crate) fn listing(
    client: Client,
    kind: &'static str,
    part: &'static str,
    object: Value,
) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, object) = (client.clone(), object.clone());
        async move {
            let query = request.uri().query().unwrap_or_default();
            let is_list = request.uri().path().ends_with(&format!("/{kind}"))
                && request.method() == Method::GET
                && query.contains(part)
                && !query.contains("watch=");
            let answer = client.send(request).await?;
            if !is_list {
                return Ok::<_, kube::Error>(answer);
            }
            let (parts, body) = answer.into_parts();
            let body = body.collect().await?.to_bytes();
            let mut list: Value = serde_json::from_slice(&body).unwrap();
            list["items"].as_array_mut().unwrap().insert(0, object);
            let body = Body::from(serde_json::to_vec(&list).unwrap());
            Ok(http::Response::from_parts(parts, body))
        }
    });
    Client::new(service, "default")
}

/// Returns a client whose new objects pass the admission webhooks of an installed cluster; those have tests of their own.
pub(crate) fn admitted(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let kind = match plural(request.uri().path()) {
                "gameservers" => "GameServer",
                "gameserversets" => "GameServerSet",
                "fleets" => "Fleet",
                _ => return client.send(request).await,
            };
            if request.method() != Method::POST {
                return client.send(request).await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            let admission = api::Admission { old: None, now: Timestamp::now() };
            (api::find(None, kind).unwrap().admit)(&mut object, &admission).unwrap();
            let body = Body::from(serde_json::to_vec(&object).unwrap());
            client.send(Request::from_parts(parts, body)).await
        }
    });
    Client::new(service, "default")
}

/// Returns a client of an engine with admission whose new game servers are stored without defaults, as in a cluster without webhooks.
pub(crate) fn unadmitted(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_new =
                request.method() == Method::POST && plural(request.uri().path()) == "gameservers";
            let path = request.uri().path().to_owned();
            let answer = client.send(request).await?;
            if !is_new || !answer.status().is_success() {
                return Ok::<_, kube::Error>(answer);
            }
            let made = answer.into_body().collect().await?.to_bytes();
            let made: Value = serde_json::from_slice(&made).unwrap();
            let name = made["metadata"]["name"].as_str().unwrap();
            let bare = json!({
                "metadata": {"finalizers": null},
                "spec": {"health": {"periodSeconds": null}, "sdkServer": null, "eviction": null},
                "status": null,
            });
            let request = Request::patch(format!("{path}/{name}"))
                .header("content-type", "application/merge-patch+json")
                .body(Body::from(serde_json::to_vec(&bare).unwrap()))
                .unwrap();
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

/// The kind in a path such as `/apis/agones.dev/v1/namespaces/n/gameservers/x`.
fn plural(path: &str) -> &str {
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces");
    parts.nth(2).unwrap_or_default()
}
