//! The metric source `haproxy` on a real HAProxy: its socket, its statistics page and its Prometheus exporter.

use std::time::Duration;

use plimsoll_connect::sources::Answer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener};

use crate::engine;
use crate::real::{Program, ask, free_port, open, secret, value, variable};

/// Sends requests, each on a connection of its own.
async fn visit(port: u16, times: usize) {
    for _ in 0..times {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }
}

#[tokio::test]
async fn a_real_haproxy_returns_the_same_in_three_ways() {
    let Some(program) = variable("PLIMSOLL_TEST_HAPROXY") else { return };
    let (web, raw) = (free_port().await, free_port().await);
    let haproxy = Program::start(&program, |port, folder| {
        let socket = folder.join("stats.sock").display().to_string();
        let config = format!(
            "global\n  stats socket {socket} level operator\ndefaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n\
             frontend web\n  bind 127.0.0.1:{web}\n  default_backend answer\n\
             backend answer\n  http-request return status 200\n\
             frontend raw\n  mode tcp\n  bind 127.0.0.1:{raw}\n  default_backend onward\n\
             backend onward\n  mode tcp\n  server web 127.0.0.1:{web}\n\
             frontend stats\n  bind 127.0.0.1:{port}\n  http-request use-service prometheus-exporter if {{ path /metrics }}\n\
             \n  stats enable\n  stats uri /haproxy_stats\n  stats auth watcher:s3cret\n"
        );
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        vec!["-db".to_owned(), "-f".to_owned(), file.display().to_string()]
    })
    .await;
    visit(web, 5).await;
    visit(raw, 2).await;
    let (_engine, context) = engine().await;
    secret(&context, "haproxy", "password", "s3cret").await;
    secret(&context, "wrong", "password", "other").await;
    let socket = format!("unix:{}", haproxy.folder.path().join("stats.sock").display());
    let page = format!("http://127.0.0.1:{}/haproxy_stats", haproxy.port);
    let exporter = format!("http://127.0.0.1:{}/metrics", haproxy.port);
    let auth = |name: &str| json!({"username": "watcher", "passwordFrom": {"name": name, "key": "password"}});
    for address in [&socket, &page, &exporter] {
        let source =
            open(&context, json!({"haproxy": {"stats": [address], "basicAuth": auth("haproxy")}}));
        // The exporter asks for itself on another frontend, so that these are all.
        assert_eq!(value(&ask(&*source, "frontend/web/req_tot").await), 7.0, "{address}");
        assert_eq!(value(&ask(&*source, "frontend/raw/stot").await), 2.0, "{address}");
        let missing = ask(&*source, "frontend/none/req_tot").await.unwrap_err();
        assert!(missing.ends_with("answered with no frontend `none`"), "{missing}");
        ask(&*source, "backend/answer/req_rate").await.unwrap();
        ask(&*source, "frontend/raw/rate").await.unwrap();
    }
    let source = open(&context, json!({"haproxy": {"stats": [socket, exporter]}}));
    assert_eq!(value(&ask(&*source, "frontend/web/req_tot").await), 14.0, "both are summed");
    // The exporter has no rate before its counter was read twice.
    assert_eq!(ask(&*source, "frontend/web/req_rate").await, Ok(Answer::NoData));
    visit(web, 4).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let rate = value(&ask(&*source, "frontend/web/req_rate").await);
    assert!(rate > 0.0 && rate <= 8.0, "{rate}");

    let refused = open(&context, json!({"haproxy": {"stats": [page], "basicAuth": auth("wrong")}}));
    let refused = ask(&*refused, "frontend/web/req_tot").await.unwrap_err();
    assert!(
        refused.contains("refused the credentials: 401") && !refused.contains("other"),
        "{refused}"
    );
    drop(haproxy);
    let down = ask(&*source, "frontend/web/req_tot").await.unwrap_err();
    assert!(down.starts_with("could not reach "), "{down}");
}

#[tokio::test]
async fn a_socket_that_is_silent_closed_or_not_that_of_haproxy_is_an_error() {
    let (_engine, context) = engine().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.sock");
    let socket = format!("unix:{}", path.display());
    let source = open(&context, json!({"timeout": "500ms", "haproxy": {"stats": [socket]}}));
    let query = "frontend/web/req_tot";
    let down = ask(&*source, query).await.unwrap_err();
    assert!(down.starts_with(&format!("could not reach {socket}: ")), "{down}");
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(ask(&*source, query).await, Err("no answer within 500 ms".to_owned()));
    // As HAProxy refuses a command on a socket whose level is too low.
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut command = [0; 64];
            drop(stream.read(&mut command).await);
            drop(stream.write_all(b"Permission denied\n").await);
        }
    });
    let refused = ask(&*source, query).await.unwrap_err();
    task.abort();
    let wanted = "answered with something other than HAProxy's statistics: `Permission denied`";
    assert_eq!(refused, format!("{socket} {wanted}"));
}
