//! Tests of the limits on connections.

use std::net::SocketAddr;

use http::header;
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::*;

const LIMITS: Limits = Limits {
    connections: 16,
    unauthenticated: 8,
    authenticate_within: Duration::from_secs(600),
    body_within: Some(Duration::from_millis(100)),
    finish_within: Duration::ZERO,
};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with this.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(limits: Limits, known: Known) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings { limits, known, tls: None };
        let stop = std::future::pending();
        let task = tokio::spawn(serve(listener, settings, service_fn(echo), stop));
        Self { address, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Opens `count` connections on which nothing is sent.
    async fn silent(&self, count: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.connect().await);
        }
        all
    }
}

/// Returns the body of the request. A client with a token is known.
async fn echo(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.headers().contains_key(header::AUTHORIZATION) {
        request.extensions().get::<Peer>().unwrap().is_known();
    }
    assert_ne!(request.uri().path(), "/panic", "as it was asked to");
    Ok(match request.into_body().collect().await {
        Ok(body) => Response::new(Full::new(body.to_bytes())),
        Err(err) => {
            let mut response = Response::new(Full::new(Bytes::from(err.to_string())));
            *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
            response
        }
    })
}

/// Sends a request with credentials, and returns the response as text; empty if the connection was closed.
async fn post(stream: &mut TcpStream, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: known\r\ncontent-length: {length}\r\n\r\n"
    );
    send(stream, &format!("{head}{body}")).await
}

/// Sends a request without credentials.
async fn post_anonymously(stream: &mut TcpStream, body: &str) -> String {
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    send(stream, &format!("{head}{body}")).await
}

async fn send(stream: &mut TcpStream, text: &str) -> String {
    let answered = async {
        // A connection that was closed shows when it is read.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer, or an end")
}

/// Waits until the server closes a connection.
async fn is_closed(stream: &mut TcpStream) {
    let ended = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 1])).await;
    assert!(matches!(ended.expect("it is closed"), Ok(0) | Err(_)));
}

#[tokio::test]
async fn idle_connections_do_not_block_a_client_that_sends_a_request() {
    for known in [Known::ByRequest, Known::ByService] {
        let server = Server::start(LIMITS, known).await;
        let mut silent = server.silent(100).await;
        let answer = post(&mut server.connect().await, "/", "hello").await;
        assert!(answer.ends_with("hello"), "{known:?}: {answer}");
        // The one that has been silent for longest goes first.
        is_closed(&mut silent[0]).await;
    }
}

#[tokio::test]
async fn a_client_that_is_known_is_never_closed_to_make_room() {
    let server = Server::start(LIMITS, Known::ByService).await;
    let mut honest = server.connect().await;
    assert!(post(&mut honest, "/", "first").await.ends_with("first"));
    let _silent = server.silent(100).await;
    assert!(post(&mut server.connect().await, "/", "other").await.ends_with("other"));
    assert!(post(&mut honest, "/", "second").await.ends_with("second"));
}

#[tokio::test]
async fn a_client_that_the_service_rejects_stays_unknown() {
    let server = Server::start(LIMITS, Known::ByService).await;
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut refused = server.connect().await;
    assert!(send(&mut refused, request).await.starts_with("HTTP/1.1 200"));
    let _silent = server.silent(LIMITS.unauthenticated).await;
    assert!(post(&mut server.connect().await, "/", "honest").await.ends_with("honest"));
    is_closed(&mut refused).await;
}

#[tokio::test]
async fn with_anonymous_clients_the_longest_idle_connection_is_closed_at_the_limit() {
    let server = Server::start(LIMITS, Known::ByRequest).await;
    let mut idle = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut stream = server.connect().await;
        assert!(post_anonymously(&mut stream, "here").await.ends_with("here"));
        idle.push(stream);
    }
    assert!(post_anonymously(&mut server.connect().await, "new").await.ends_with("new"));
    is_closed(&mut idle[0]).await;
    assert!(post_anonymously(&mut idle[LIMITS.connections - 1], "again").await.ends_with("again"));
}

#[tokio::test]
async fn when_all_connections_are_known_the_next_one_waits_for_a_free_place() {
    let limits = Limits { connections: 4, ..LIMITS };
    let server = Server::start(limits, Known::ByService).await;
    let mut known = Vec::new();
    for _ in 0..limits.connections {
        let mut stream = server.connect().await;
        assert!(post(&mut stream, "/", "here").await.ends_with("here"));
        known.push(stream);
    }
    let mut next = server.connect().await;
    let waiting = tokio::spawn(async move { post(&mut next, "/", "in").await });
    for stream in &mut known {
        assert!(post(stream, "/", "still here").await.ends_with("still here"));
    }
    assert!(!waiting.is_finished());
    drop(known.pop());
    assert!(waiting.await.unwrap().ends_with("in"));
}

#[tokio::test]
async fn an_unknown_connection_is_closed_at_its_deadline_even_with_a_partial_head() {
    let limits = Limits { authenticate_within: Duration::from_millis(50), ..LIMITS };
    let server = Server::start(limits, Known::ByRequest).await;
    let (mut silent, mut slow) = (server.connect().await, server.connect().await);
    slow.write_all(b"GET / HTTP/1.1\r\nhost: loc").await.unwrap();
    is_closed(&mut silent).await;
    is_closed(&mut slow).await;
    let mut known = server.connect().await;
    assert!(post(&mut known, "/", "quick").await.ends_with("quick"));
    tokio::time::sleep(limits.authenticate_within * 4).await;
    assert!(
        post(&mut known, "/", "later").await.ends_with("later"),
        "the connection is still known"
    );
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_given_up() {
    let server = Server::start(LIMITS, Known::ByRequest).await;
    let slow = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf";
    let answer = send(&mut server.connect().await, slow).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_handler_that_panics_answers_500_and_its_connection_goes_on() {
    let server = Server::start(LIMITS, Known::ByRequest).await;
    let mut stream = server.connect().await;
    let answer = post(&mut stream, "/panic", "").await;
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert!(post(&mut stream, "/", "well").await.ends_with("well"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_as_long_as_clients_keep_it_idle() {
    let (mut client, stream) = tokio::io::duplex(64 << 10);
    let (_stopping, stopping) = watch::channel(false);
    let place = Connections::new(LIMITS).add();
    let settings = Settings { limits: LIMITS, known: Known::ByRequest, tls: None };
    let connection =
        Connection { peer: place.peer(), settings, service: service_fn(echo), stopping };
    let answering = tokio::spawn(connection.answer(stream, None));
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let length = client.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{answer:?}");
        tokio::time::sleep(Duration::from_secs(90)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(answering.is_finished(), "and not for ever");
}
