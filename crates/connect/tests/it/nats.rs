//! The metric source `nats` on a real server with JetStream.

use std::time::Duration;

use plimsoll_connect::sources::Answer;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::engine;
use crate::real::{Program, ask, free_port, open, value, variable};

#[tokio::test]
async fn a_real_nats_returns_the_lag_of_a_consumer() {
    let Some(program) = variable("PLIMSOLL_TEST_NATS") else { return };
    let monitoring = free_port().await;
    let nats = Program::start(&program, |port, folder| {
        let (folder, monitoring, port) =
            (folder.display().to_string(), monitoring.to_string(), port.to_string());
        ["-a", "127.0.0.1", "-p", &port, "-m", &monitoring, "-js", "-sd", &folder]
            .map(str::to_owned)
            .to_vec()
    })
    .await;
    let mut client = TcpStream::connect(("127.0.0.1", nats.port)).await.unwrap();
    let publish = |subject: &str, body: &str| format!("PUB {subject} {}\r\n{body}\r\n", body.len());
    let stream = json!({"name": "JOBS", "subjects": ["jobs.>"], "storage": "memory"}).to_string();
    let consumer = json!({"stream_name": "JOBS", "config": {"durable_name": "worker", "ack_policy": "explicit"}});
    let mut commands = "CONNECT {\"verbose\":false}\r\n".to_owned();
    commands += &publish("$JS.API.STREAM.CREATE.JOBS", &stream);
    commands += &publish("$JS.API.CONSUMER.DURABLE.CREATE.JOBS.worker", &consumer.to_string());
    client.write_all((commands + "PING\r\n").as_bytes()).await.unwrap();
    let (_engine, context) = engine().await;
    let url = format!("http://127.0.0.1:{monitoring}");
    let source = open(&context, json!({"nats": {"url": url}}));
    let until = Instant::now() + Duration::from_secs(30);
    while ask(&*source, "JOBS/worker").await.is_ok_and(|answer| answer == Answer::NoData) {
        assert!(Instant::now() < until, "the consumer was not created");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(value(&ask(&*source, "JOBS/worker").await), 0.0);
    let jobs: String = (0..3).map(|job| publish("jobs.new", &job.to_string())).collect();
    client.write_all(jobs.as_bytes()).await.unwrap();
    while value(&ask(&*source, "JOBS/worker").await) < 3.0 {
        assert!(Instant::now() < until, "the messages did not arrive");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ask(&*source, "JOBS/none").await, Ok(Answer::NoData));
    assert_eq!(ask(&*source, "NONE/worker").await, Ok(Answer::NoData));
    let mut buffer = [0; 4096];
    assert!(client.read(&mut buffer).await.unwrap() > 0);
    drop(nats);
    let down = ask(&*source, "JOBS/worker").await.unwrap_err();
    assert!(down.starts_with("could not reach http://127.0.0.1:"), "{down}");
}
