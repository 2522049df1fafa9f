//! One of several attackers, and the responses that it received.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::api::{self, Request};
use super::http2;
use super::target::{SdkServer, Up};
use super::wire::{Connection, Endpoint, Outcome};
use crate::kill::Random;

/// How many connections an attacker leaves behind before it closes the first of them.
const LEFT_OPEN: usize = 32;

/// Whom to attack, and how often.
pub(super) struct Attack {
    api: Endpoint,
    allocator: Endpoint,
    metrics: Endpoint,
    sdk_rest: Endpoint,
    sdk_grpc: Endpoint,
    left: AtomicU64,
}

/// What came of the requests of attackers.
#[derive(Default)]
pub(super) struct Tally {
    sent: u64,
    codes: BTreeMap<u16, u64>,
    closed: u64,
    /// Requests whose answers are the server's fault.
    faults: Vec<String>,
}

impl Attack {
    pub(super) fn new(up: &Up, sdk: &SdkServer, requests: u64) -> Self {
        let (address, authority, token) = up.access();
        Self {
            api: Endpoint::secured(address, &authority, token),
            allocator: Endpoint::plain(up.allocator),
            metrics: Endpoint::plain(up.metrics),
            sdk_rest: Endpoint::plain(sdk.rest),
            sdk_grpc: Endpoint::plain(sdk.grpc),
            left: AtomicU64::new(requests),
        }
    }

    /// Opens connections that say nothing.
    pub(super) async fn silent_connections(&self, count: usize) -> Vec<TcpStream> {
        let mut open = Vec::new();
        for index in 0..count {
            let to = [&self.api, &self.allocator, &self.metrics, &self.sdk_rest][index % 4];
            open.extend(to.socket().await.ok());
        }
        open
    }

    /// Takes so many of the requests that are left.
    fn take(&self, count: u64) -> bool {
        let took = |left: u64| (left > 0).then(|| left.saturating_sub(count));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, took).is_ok()
    }
}

/// Attacks until there were enough requests.
pub(super) async fn run(attack: Arc<Attack>, mut random: Random) -> Tally {
    let mut tally = Tally::default();
    let mut kept: BTreeMap<u16, Connection> = BTreeMap::new();
    let mut left_open = VecDeque::new();
    while attack.take(1) {
        let (to, request) = match random.below(100) {
            0..80 => (&attack.api, api::request(&mut random)),
            80..90 => (&attack.allocator, api::plain(&mut random, &allocations())),
            90..93 => (&attack.metrics, api::plain(&mut random, &[("GET", "/metrics", json!({}))])),
            _ => (&attack.sdk_rest, api::plain(&mut random, &calls())),
        };
        match random.below(100) {
            0..3 => {
                let to = *random.pick(&[&attack.api, &attack.allocator, &attack.sdk_grpc]);
                let path = *random.pick(&[
                    "/api/v1/pods",
                    "/allocation.AllocationService/Allocate",
                    "/agones.dev.sdk.SDK/GetGameServer",
                ]);
                let sent = http2::misuse(to, path, &mut random).await;
                attack.take(sent);
                tally.sent += sent;
            }
            3..7 => {
                left_open.extend(break_off(to, &request, &mut random).await);
                tally.sent += 1;
            }
            _ => {
                let key = to.address.port();
                let (outcome, connection) =
                    send(to, kept.remove(&key), &request, &mut random).await;
                tally.note(&request, outcome, to.token.is_some());
                kept.extend(connection.map(|connection| (key, connection)));
            }
        }
        while left_open.len() > LEFT_OPEN {
            left_open.pop_front();
        }
    }
    tally
}

/// Sends a request as a whole, and gives the connection if it can be used again.
async fn send(
    to: &Endpoint,
    kept: Option<Connection>,
    request: &Request,
    random: &mut Random,
) -> (Outcome, Option<Connection>) {
    let mut connection = match kept {
        Some(connection) => connection,
        None => match to.connect(false).await {
            Ok(connection) => connection,
            Err(_) => return (Outcome::Closed, None),
        },
    };
    let is_chunked = random.below(10) == 0;
    let mut bytes = to.head(request, (!is_chunked).then_some(request.body.len()));
    if is_chunked {
        for chunk in request.body.chunks(1 + random.below(64 << 10) as usize) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
    } else {
        bytes.extend(&request.body);
    }
    // Who refuses a request need not read all of it: there may be an answer all the same.
    let _ = connection.write(&bytes).await;
    let outcome = connection.answer(!request.watches).await;
    let is_usable = matches!(outcome, Outcome::Answered(100..400 | 404 | 409 | 422, _));
    let connection = (is_usable && !request.watches && random.below(50) > 0).then_some(connection);
    (outcome, connection)
}

/// Begins something and does not finish it.
async fn break_off(
    to: &Endpoint,
    request: &Request,
    random: &mut Random,
) -> Option<Box<dyn std::any::Any + Send>> {
    let whole = [to.head(request, Some(request.body.len() + 1)), request.body.clone()].concat();
    let part = &whole[..random.below(whole.len() as u64) as usize];
    match random.below(5) {
        // A client hello that breaks off, and bytes that are none.
        0 => {
            let mut socket = to.socket().await.ok()?;
            socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await.ok()?;
            Some(Box::new(socket))
        }
        1 => {
            let mut socket = to.socket().await.ok()?;
            socket.write_all(part).await.ok()?;
            Some(Box::new(socket))
        }
        // A body that stops.
        2 => {
            let mut connection = to.connect(false).await.ok()?;
            connection.write(part).await.ok()?;
            Some(Box::new(connection))
        }
        // A chunk that is longer than it says, and many requests at once.
        3 => {
            let mut connection = to.connect(false).await.ok()?;
            let head = to.head(request, None);
            let chunk: &[u8] = random.pick::<&[u8]>(&[
                b"ffffffffffffffff\r\nx",
                b"-1\r\n",
                b"5\r\nabcdefgh\r\n0\r\n\r\n",
                b"zz\r\n",
            ]);
            connection.write(&[&head, chunk].concat()).await.ok()?;
            connection.skim().await;
            Some(Box::new(connection))
        }
        _ => {
            let mut connection = to.connect(false).await.ok()?;
            let one = [to.head(request, Some(request.body.len())), request.body.clone()].concat();
            connection.write(&one.repeat(3)).await.ok()?;
            // Closed before there is an answer.
            None
        }
    }
}

fn allocations() -> [(&'static str, &'static str, Value); 1] {
    let asked = json!({"namespace": "attacked", "gameServerSelectors": [{"matchLabels": {"a": "b"},
        "counters": {"rooms": {"minAvailable": "1"}}}], "priorities": [{"type": "Counter", "key": "rooms", "order": 1}],
        "counters": {"rooms": {"action": "Increment", "amount": "2"}}, "metadata": {"labels": {"a": "b"}}});
    [("POST", "/gameserverallocation", asked)]
}

fn calls() -> [(&'static str, &'static str, Value); 8] {
    [
        ("POST", "/ready", json!({})),
        ("POST", "/health", json!({})),
        ("POST", "/allocate", json!({})),
        ("PUT", "/metadata/label", json!({"key": "a", "value": "b"})),
        ("GET", "/gameserver", json!({})),
        ("POST", "/reserve", json!({"seconds": "5"})),
        (
            "PATCH",
            "/v1beta1/counters/rooms",
            json!({"count": "1", "capacity": "5", "countDiff": "1"}),
        ),
        ("POST", "/v1beta1/lists/players:addValue", json!({"value": "x"})),
    ]
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.closed += other.closed;
        self.faults.extend(other.faults);
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
    }

    fn note(&mut self, request: &Request, outcome: Outcome, is_api: bool) {
        self.sent += 1;
        let mut fault = |what: String| {
            let body =
                String::from_utf8_lossy(&request.body[..request.body.len().min(500)]).into_owned();
            let (method, path) = (&request.method, &request.path[..request.path.len().min(200)]);
            self.faults
                .push(format!("{method} {path} {:?}\n  {body}\n  {what}", request.headers.first()));
        };
        match outcome {
            Outcome::Answered(code, body) => {
                // Elsewhere it says that the API refused.
                if code == 500 && is_api && !is_500_on_a_cluster(request, &body) {
                    fault(format!("{code} {body}"));
                }
                *self.codes.entry(code).or_default() += 1;
            }
            Outcome::Closed => self.closed += 1,
            Outcome::Hung => fault("no answer".to_owned()),
        }
    }

    /// Checks that nothing was the server's fault: it answers, and it never says that it broke.
    pub(super) fn is_acceptable(&self) {
        let some: Vec<&String> = self.faults.iter().take(10).collect();
        assert!(
            some.is_empty(),
            "{} requests, among them:\n{}",
            self.faults.len(),
            some.into_iter().map(String::as_str).collect::<Vec<_>>().join("\n")
        );
        assert!(self.codes.contains_key(&201), "some requests are valid after all: {self}");
    }
}

/// Returns whether a 500 is one of those that a real API server answers, too, for input that it does not expect: it has a message of its own,
/// which neither a panic nor an internal error has. The text of a refused watch is not read; there it is a version that is no number.
fn is_500_on_a_cluster(request: &Request, body: &str) -> bool {
    let has_odd_version = request.path.split(['?', '&']).any(|part| {
        part.strip_prefix("resourceVersion=").is_some_and(|version| version.parse::<u64>().is_err())
    });
    let is_status = body.contains(r#""kind":"Status""#);
    has_odd_version || (is_status && !body.contains("Internal error occurred"))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests sent; answers {:?}; {} connections closed; {} faults",
            self.sent,
            self.codes,
            self.closed,
            self.faults.len()
        )
    }
}
