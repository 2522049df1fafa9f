//! The watch over a WebSocket, by hand: the handshake, then one text frame per change.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::sdk_servers::{self, NEVER, SdkServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_delivers_every_change_in_process() {
    receives_changes(&sdk_servers::in_process().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_delivers_every_change_of_the_local_server() {
    receives_changes(&sdk_servers::local(&[])).await;
}

async fn receives_changes(server: &SdkServer) {
    let stream = TcpStream::connect(("127.0.0.1", server.http)).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = "GET /watch/gameserver HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://elsewhere\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    assert!(frame(&mut stream).await.starts_with(r#"{"result":{"object_meta":{"name":"#));
    server.client().await.reserve(std::time::Duration::from_secs(3600)).await.unwrap();
    let reserved = async { while !frame(&mut stream).await.contains(r#""state":"Reserved""#) {} };
    tokio::time::timeout(NEVER, reserved).await.unwrap();
}

/// Reads one whole text frame.
async fn frame(stream: &mut BufReader<TcpStream>) -> String {
    let (first, length) = (stream.read_u8().await.unwrap(), stream.read_u8().await.unwrap());
    assert_eq!(first, 0x81, "a whole text frame");
    let length = match length {
        127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
        126 => usize::from(stream.read_u16().await.unwrap()),
        short => usize::from(short),
    };
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.ends_with('\n'));
    text
}
