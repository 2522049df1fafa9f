//! Misuse of HTTP/2: frames are built by hand, since no client would send them.

use super::wire::{Connection, Endpoint};
use crate::kill::Random;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Opens a connection, misuses it in one way, and gives how many requests that was.
pub(super) async fn misuse(endpoint: &Endpoint, path: &str, random: &mut Random) -> u64 {
    let Ok(mut connection) = endpoint.connect(true).await else { return 1 };
    let mut bytes = PREFACE.to_vec();
    frame(&mut bytes, SETTINGS, 0, 0, &[]);
    let streams = 1 + random.below(150) as u32;
    let sent = match random.below(8) {
        0 => each(streams, |id| {
            frame(&mut bytes, HEADERS, END_STREAM | END_HEADERS, id, &head(endpoint, "GET", path));
            frame(&mut bytes, RST_STREAM, 0, id, &[0, 0, 0, 8]);
        }),
        1 => each(streams, |id| {
            frame(&mut bytes, HEADERS, END_HEADERS, id, &head(endpoint, "POST", path));
            frame(&mut bytes, DATA, 0, id, b"{");
        }),
        2 => {
            frame(&mut bytes, HEADERS, 0, 1, &head(endpoint, "GET", path));
            for index in 0..random.below(600) {
                frame(
                    &mut bytes,
                    CONTINUATION,
                    0,
                    1,
                    &literal(&format!("x-{index}"), &"v".repeat(100)),
                );
            }
            1
        }
        3 => {
            (0..random.below(2000)).for_each(|_| frame(&mut bytes, SETTINGS, 0, 0, &[]));
            1
        }
        4 => {
            (0..random.below(2000)).for_each(|_| frame(&mut bytes, PING, 0, 0, &[7; 8]));
            1
        }
        5 => {
            frame(&mut bytes, HEADERS, END_HEADERS, 1, &head(endpoint, "POST", path));
            frame(&mut bytes, WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]);
            (0..random.below(500)).for_each(|_| frame(&mut bytes, DATA, 0, 1, &[]));
            1
        }
        6 => each(streams, |id| {
            // A message of gRPC that says to be longer than it is.
            let mut fields = head(endpoint, "POST", path);
            fields.extend(literal("content-type", "application/grpc"));
            frame(&mut bytes, HEADERS, END_HEADERS, id, &fields);
            let message: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
            frame(&mut bytes, DATA, END_STREAM, id, &message);
        }),
        _ => {
            for _ in 0..random.below(50) {
                let payload: Vec<u8> = (0..random.below(64)).map(|_| random.next() as u8).collect();
                let (kind, flags, id) =
                    (random.below(12) as u8, random.next() as u8, random.below(9) as u32);
                frame(&mut bytes, kind, flags, id, &payload);
            }
            1
        }
    };
    finish(&mut connection, &bytes).await;
    sent
}

/// Sends all bytes until the server stops reading, and reads part of the response.
async fn finish(connection: &mut Connection, bytes: &[u8]) {
    for part in bytes.chunks(8 << 10) {
        if connection.write(part).await.is_err() {
            return;
        }
    }
    connection.skim().await;
}

/// Calls `open` with the ids of `streams` client streams.
fn each(streams: u32, mut open: impl FnMut(u32)) -> u64 {
    (0..streams).for_each(|index| open(index * 2 + 1));
    streams.into()
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}

/// Encodes the head of a request without compression.
fn head(endpoint: &Endpoint, method: &str, path: &str) -> Vec<u8> {
    let mut fields = vec![if method == "GET" { 0x82 } else { 0x83 }, 0x87];
    for (index, value) in [(0x04, path), (0x01, "localhost")] {
        fields.push(index);
        text(&mut fields, value);
    }
    if let Some(token) = &endpoint.token {
        fields.extend(literal("authorization", &format!("Bearer {token}")));
    }
    fields
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    text(&mut field, name);
    text(&mut field, value);
    field
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    let value = &value.as_bytes()[..value.len().min(126)];
    bytes.push(value.len() as u8);
    bytes.extend(value);
}
