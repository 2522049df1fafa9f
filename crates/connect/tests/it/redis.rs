//! The metric source `redis` on a real Redis.

use plimsoll_connect::sources::Answer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::engine;
use crate::real::{Program, ask, free_port, open, secret, value, variable};

#[tokio::test]
async fn a_real_redis_returns_lengths_and_the_lag_of_groups() {
    let Some(program) = variable("PLIMSOLL_TEST_REDIS") else { return };
    let redis = Program::start(&program, |port, folder| {
        let folder = folder.display().to_string();
        let arguments = [
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            &folder,
            "--requirepass",
            "s3cret",
        ];
        arguments.map(str::to_owned).to_vec()
    })
    .await;
    let mut client = TcpStream::connect(("127.0.0.1", redis.port)).await.unwrap();
    let commands = "AUTH s3cret\r\nSELECT 2\r\nRPUSH jobs/high a b c\r\nSADD set a b\r\nZADD zset 1 a\r\nHSET hash a 1 b 2\r\n\
        SET text x\r\nXGROUP CREATE stream group 0 MKSTREAM\r\nXADD stream * a 1\r\nXADD stream * a 2\r\nXADD stream * a 3\r\n\
        XREADGROUP GROUP group me COUNT 2 STREAMS stream >\r\nQUIT\r\n";
    client.write_all(commands.as_bytes()).await.unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).await.unwrap();
    assert!(!replies.contains("-ERR"), "{replies}");

    let (_engine, context) = engine().await;
    secret(&context, "redis", "password", "s3cret\n").await;
    secret(&context, "wrong", "password", "other").await;
    let url = format!("redis://127.0.0.1:{}/2", redis.port);
    let password = json!({"name": "redis", "key": "password"});
    let source = open(&context, json!({"redis": {"url": url, "passwordFrom": password}}));
    for (query, wanted) in [
        ("length/jobs/high", 3.0),
        ("length/set", 2.0),
        ("length/zset", 1.0),
        ("length/hash", 2.0),
        ("length/stream", 3.0),
        ("length/none", 0.0),
        ("lag/stream/group", 1.0),
        ("pending/stream/group", 2.0),
    ] {
        assert_eq!(value(&ask(&*source, query).await), wanted, "{query}");
    }
    for query in ["lag/stream/none", "lag/none/group", "pending/stream/none", "pending/none/group"]
    {
        assert_eq!(ask(&*source, query).await, Ok(Answer::NoData), "{query}");
    }
    let text = ask(&*source, "length/text").await.unwrap_err();
    assert!(
        text.ends_with("answered with a key of the type string, which has no length"),
        "{text}"
    );

    let refused = open(&context, json!({"redis": {"url": url}}));
    let refused = ask(&*refused, "length/set").await.unwrap_err();
    assert!(refused.contains("refused the credentials: NOAUTH"), "{refused}");
    let wrong = json!({"name": "wrong", "key": "password"});
    let wrong = open(&context, json!({"redis": {"url": url, "passwordFrom": wrong}}));
    let wrong = ask(&*wrong, "length/set").await.unwrap_err();
    assert!(
        wrong.contains("refused the credentials: WRONGPASS") && !wrong.contains("other"),
        "{wrong}"
    );
    let missing = json!({"name": "redis", "key": "token"});
    let missing = open(&context, json!({"redis": {"url": url, "passwordFrom": missing}}));
    let missing = ask(&*missing, "length/set").await.unwrap_err();
    assert_eq!(missing, "Secret plimsoll-system/redis, key `token`: the Secret has no such key");

    drop(redis);
    let down = ask(&*source, "length/set").await.unwrap_err();
    assert!(down.starts_with("could not reach 127.0.0.1:"), "{down}");
}

#[tokio::test]
async fn a_redis_that_is_slow_or_no_redis_is_an_error() {
    let (_engine, context) = engine().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let slow = open(&context, json!({"timeout": "50ms", "redis": {"url": url}}));
    assert_eq!(ask(&*slow, "length/a").await, Err("no answer within 50 ms".to_owned()));

    let web = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", web.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut socket, _) = web.accept().await.unwrap();
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = socket.read(&mut [0; 512]).await;
    });
    let wrong =
        ask(&*open(&context, json!({"redis": {"url": url}})), "length/a").await.unwrap_err();
    assert!(wrong.ends_with("answered with something other than the Redis protocol"), "{wrong}");
    serving.await.unwrap();

    let url = format!("redis://127.0.0.1:{}", free_port().await);
    let down = ask(&*open(&context, json!({"redis": {"url": url}})), "length/a").await.unwrap_err();
    assert!(down.starts_with("could not reach 127.0.0.1:"), "{down}");
}
