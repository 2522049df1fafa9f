//! The metric source `rabbitmq` on a real server with its management plugin.

use std::path::Path;
use std::time::Duration;

use plimsoll_connect::sources::{Answer, MetricSource};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

use crate::engine;
use crate::real::{Program, ask, free_port, open, secret, value, variable};

/// A server, which ends before the daemon that knows its name.
struct RabbitMq {
    server: Program,
    _names: Program,
}

impl RabbitMq {
    /// Starts a server whose management API is on loopback, as everything else of it.
    async fn start(script: &str) -> Self {
        let bin = Path::new(script).ancestors().nth(3).unwrap().join("erlang/bin");
        // Erlang would leave this daemon behind: started first and in the foreground, it ends with the test.
        let names = Program::run(|port, _| {
            let mut command = Command::new(bin.join("epmd"));
            command.args(["-port", &port.to_string()]).env("ERL_EPMD_ADDRESS", "127.0.0.1");
            command
        })
        .await;
        let nodes = free_port().await;
        let server = Program::run(|port, folder| {
            let config = format!(
                "listeners.tcp = none\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n\
                 default_user = watcher\ndefault_pass = s3cret\ncollect_statistics_interval = 500\n"
            );
            std::fs::write(folder.join("rabbitmq.conf"), config).unwrap();
            std::fs::write(folder.join("plugins"), "[rabbitmq_management].").unwrap();
            let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
            let mut command = Command::new(script);
            command
                .env("PATH", path)
                .env("HOME", folder)
                .env("ERL_EPMD_ADDRESS", "127.0.0.1")
                .env("ERL_EPMD_PORT", names.port.to_string())
                // The script then becomes the server, instead of waiting for it: there is one process to stop.
                .env("RUNNING_UNDER_SYSTEMD", "true")
                .env("RABBITMQ_NODENAME", "plimsoll@localhost")
                .env("RABBITMQ_DIST_PORT", nodes.to_string())
                .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
                .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
                .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
                .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
                .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
                .env("RABBITMQ_LOG_BASE", folder.join("log"));
            command
        })
        .await;
        Self { server, _names: names }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    /// Changes something, or publishes a message.
    async fn send(&self, method: Method, path: &str, body: Value) {
        let client = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
        let request = client.request(method, format!("{}/api/{path}", self.url()));
        let request = request.basic_auth("watcher", Some("s3cret")).body(body.to_string());
        let answer = request.header("content-type", "application/json").send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status}: {}", answer.text().await.unwrap());
    }

    async fn publish(&self, vhost: &str, queue: &str) {
        let message = json!({"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"});
        self.send(Method::POST, &format!("exchanges/{vhost}/amq.default/publish"), message).await;
    }
}

/// Waits until a number has a value. RabbitMQ counts a queue every few seconds, and has no numbers before.
async fn until(source: &dyn MetricSource, query: &str, wanted: f64) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = ask(source, query).await;
        if found != Ok(Answer::NoData) && value(&found) == wanted {
            return;
        }
        assert!(Instant::now() < until, "{query} should be {wanted}: {found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_real_rabbitmq_returns_the_messages_of_a_queue() {
    let Some(script) = variable("PLIMSOLL_TEST_RABBITMQ") else { return };
    let rabbit = RabbitMq::start(&script).await;
    let (_engine, context) = engine().await;
    for (name, password) in [("right", "s3cret"), ("wrong", "other")] {
        secret(&context, name, "password", password).await;
    }
    let spec = |user: &str, name: &str, vhost: &str| {
        let auth = json!({"username": user, "passwordFrom": {"name": name, "key": "password"}});
        json!({"timeout": "2s", "rabbitmq": {"url": rabbit.url(), "vhost": vhost, "basicAuth": auth}})
    };
    let source = open(&context, spec("watcher", "right", "/"));
    rabbit.send(Method::PUT, "queues/%2F/jobs%2Fhigh", json!({})).await;
    for _ in 0..3 {
        rabbit.publish("%2F", "jobs/high").await;
    }
    rabbit.send(Method::PUT, "vhosts/games", json!({})).await;
    rabbit
        .send(
            Method::PUT,
            "permissions/games/watcher",
            json!({"configure": ".*", "write": ".*", "read": ".*"}),
        )
        .await;
    rabbit.send(Method::PUT, "queues/games/jobs", json!({})).await;
    rabbit.publish("games", "jobs").await;
    until(&*source, "jobs/high/messages", 3.0).await;
    for (query, wanted) in [("messages_ready", 3.0), ("messages_unacknowledged", 0.0)] {
        assert_eq!(value(&ask(&*source, &format!("jobs/high/{query}")).await), wanted, "{query}");
    }
    let rate = value(&ask(&*source, "jobs/high/publish_rate").await);
    assert!((0.0..=60.0).contains(&rate), "{rate}");
    until(&*open(&context, spec("watcher", "right", "games")), "jobs/messages", 1.0).await;
    for (vhost, queue) in [("/", "none"), ("games", "jobs/high"), ("none", "jobs")] {
        let missing =
            ask(&*open(&context, spec("watcher", "right", vhost)), &format!("{queue}/messages"))
                .await;
        let wanted = format!("there is no queue `{queue}` in the virtual host `{vhost}`");
        assert!(missing.as_ref().is_err_and(|found| found.ends_with(&wanted)), "{missing:?}");
    }

    // Without a tag, a user may send and receive messages, but not see the numbers.
    rabbit.send(Method::PUT, "users/app", json!({"password": "s3cret", "tags": ""})).await;
    for (user, password) in [("watcher", "wrong"), ("nobody", "right"), ("app", "right")] {
        let refused = ask(&*open(&context, spec(user, password, "/")), "jobs/high/messages").await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("refused the credentials: 401"), "{user}: {refused}");
        assert!(!refused.contains("s3cret") && !refused.contains("other"), "{refused}");
    }

    rabbit.server.signal("STOP").await;
    assert_eq!(
        ask(&*source, "jobs/high/messages").await,
        Err("no answer within 2000 ms".to_owned())
    );
    rabbit.server.signal("CONT").await;
    until(&*source, "jobs/high/messages", 3.0).await;
    rabbit.server.stop().await;
    let down = ask(&*source, "jobs/high/messages").await.unwrap_err();
    assert!(down.starts_with("could not reach http://127.0.0.1:"), "{down}");
}
