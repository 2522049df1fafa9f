//! The sample game server, played over UDP and TCP, with the local stand-in as its SDK server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use super::sdk_servers::{self, Running, SdkServer};
use crate::plimsoll;

/// Starts it on free ports; gives it, and the port that it listens on.
fn sample(server: &SdkServer, flags: &[&str]) -> (Running, u16) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = plimsoll();
    command
        .args(["sample-server", "--address", "127.0.0.1", "-port", &port.to_string()])
        .args(flags);
    command.env("AGONES_SDK_GRPC_PORT", server.grpc.to_string());
    let mut child = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("listening on")).unwrap().unwrap();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
    (child, port)
}

fn player(port: u16) -> impl Fn(&str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    move |text| {
        socket.send(text.as_bytes()).unwrap();
        let mut reply = [0; 2048];
        let length = socket.recv(&mut reply).unwrap();
        String::from_utf8_lossy(&reply[..length]).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_server_answers_every_command() {
    let server = sdk_servers::local(&[]);
    let (mut child, port) = sample(&server, &["--tcp"]);
    let say = player(port);
    for (command, reply) in [
        ("hello", "ACK: hello\n"),
        ("GAMESERVER", "NAME: local\n"),
        ("READY", "ACK: READY\n"),
        ("ALLOCATE", "ACK: ALLOCATE\n"),
        ("RESERVE 1h", "ACK: RESERVE 1h\n"),
        ("RESERVE 0", "ACK: RESERVE 0\n"),
        ("RESERVE soon", "ERROR: expected a duration such as 90s or 1m30s, found \"soon\"\n"),
        ("RESERVE", "ERROR: Invalid RESERVE, should have 1 argument\n"),
        ("WATCH", "ACK: WATCH\n"),
        ("LABEL", "ACK: LABEL\n"),
        ("LABEL map desert", "ACK: LABEL map desert\n"),
        ("ANNOTATION", "ACK: ANNOTATION\n"),
        ("ANNOTATION a b", "ACK: ANNOTATION a b\n"),
        ("PLAYER_CAPACITY 2", "ACK: PLAYER_CAPACITY 2\n"),
        ("PLAYER_CAPACITY", "2\n"),
        ("PLAYER_CONNECT x", "ACK: PLAYER_CONNECT x\n"),
        ("PLAYER_CONNECT y", "ACK: PLAYER_CONNECT y\n"),
        ("PLAYER_CONNECTED x", "true\n"),
        ("GET_PLAYERS", "x,y\n"),
        ("PLAYER_DISCONNECT x", "ACK: PLAYER_DISCONNECT x\n"),
        ("PLAYER_COUNT", "1\n"),
        ("GET_COUNTER_COUNT rooms", "COUNTER: 1\n"),
        ("INCREMENT_COUNTER rooms 4", "SUCCESS\n"),
        ("DECREMENT_COUNTER rooms 2", "SUCCESS\n"),
        ("INCREMENT_COUNTER rooms -1", "ERROR: amount must be a positive int64, found -1\n"),
        ("DECREMENT_COUNTER rooms -1", "ERROR: amount must be a positive int64, found -1\n"),
        ("GET_COUNTER_COUNT rooms", "COUNTER: 3\n"),
        ("SET_COUNTER_COUNT rooms 5", "SUCCESS\n"),
        ("SET_COUNTER_CAPACITY rooms 7", "SUCCESS\n"),
        ("GET_COUNTER_CAPACITY rooms", "CAPACITY: 7\n"),
        ("GET_LIST_VALUES players", "VALUES: test0,test1,test2\n"),
        ("APPEND_LIST_VALUE players z", "SUCCESS\n"),
        ("DELETE_LIST_VALUE players test0", "SUCCESS\n"),
        ("LIST_CONTAINS players z", "FOUND: true\n"),
        ("GET_LIST_LENGTH players", "LENGTH: 3\n"),
        ("SET_LIST_CAPACITY players 0", "SUCCESS\n"),
        ("GET_LIST_CAPACITY players", "CAPACITY: 0\n"),
        ("GET_LIST_VALUES players", "VALUES: <none>\n"),
        ("UNHEALTHY", "ACK: UNHEALTHY\n"),
        ("EXIT", "ACK: EXIT\n"),
    ] {
        assert_eq!(say(command), reply, "{command}");
    }
    assert!(say("GET_COUNTER_COUNT none").starts_with("ERROR: not found"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"hello\nGAMESERVER\n").unwrap();
    let wanted = "ACK TCP: hello\n\nNAME: local\n\n";
    let mut reply = vec![0; wanted.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), wanted);
    let mut sdk = server.client().await;
    assert_eq!(sdk.get_gameserver().await.unwrap().status.unwrap().state, "Shutdown");
    assert_eq!(child.end(), Some(0), "it exits with 0 after SIGTERM");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_server_reserves_without_an_end() {
    let server = sdk_servers::in_process().await;
    let (_child, port) = sample(&server, &["-ready=false"]);
    let say = player(port);
    for (span, has_end) in [("1h", true), ("0", false)] {
        assert_eq!(say(&format!("RESERVE {span}")), format!("ACK: RESERVE {span}\n"));
        let is_so = async {
            loop {
                let status = server.stored().await.unwrap()["status"].clone();
                if status["state"] == "Reserved" && status["reservedUntil"].is_string() == has_end {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(sdk_servers::NEVER, is_so)
            .await
            .unwrap_or_else(|_| panic!("never {span}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_server_answers_until_its_graceful_end() {
    let server = sdk_servers::local(&[]);
    let (mut child, port) = sample(&server, &["-gracefulTerminationDelaySec=3600"]);
    let say = player(port);
    assert_eq!(say("before"), "ACK: before\n");
    child.terminate();
    for _ in 0..5 {
        assert_eq!(say("after"), "ACK: after\n");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(child.0.try_wait().unwrap(), None, "it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_server_crashes_on_command() {
    let server = sdk_servers::local(&[]);
    let (mut child, port) = sample(&server, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"CRASH 7", ("127.0.0.1", port)).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_server_plays_some_rounds_and_shuts_down() {
    let server = sdk_servers::local(&[]);
    let flags = ["-automaticShutdownDelaySec=1", "-readyIterations=1", "-ready=false"];
    let (_child, port) = sample(&server, &flags);
    let say = player(port);
    let mut sdk = server.client().await;
    for state in ["Ready", "Shutdown"] {
        say("ALLOCATE");
        let reached = async {
            while sdk.get_gameserver().await.unwrap().status.unwrap().state != state {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(sdk_servers::NEVER, reached)
            .await
            .unwrap_or_else(|_| panic!("never {state}"));
    }
}
