//! The metric source `prometheus` on a real Prometheus that scrapes a server of the test.

mod running;

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use decide::checks::Window;
use jiff::{SignedDuration, Timestamp};
use plimsoll_connect::sources::{self, Answer, MetricSource, Query, QueryError};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio::time::Instant;

use crate::engine;
use crate::real::{self, Program, open, secret, value, variable};
use crate::server::Server;
use running::Prometheus;

async fn ask(
    source: &dyn MetricSource,
    text: &str,
    length: Option<i64>,
) -> Result<Answer, QueryError> {
    let length = length.map(SignedDuration::from_secs);
    let query = Query {
        text: text.to_owned(),
        target: None,
        window: Window { length, offset: SignedDuration::ZERO },
        now: Timestamp::now(),
        deadline: Instant::now() + Duration::from_secs(30),
    };
    source.query(&query).await
}

/// The hash of the password `s3cret` that Prometheus compares with.
const PASSWORD_HASH: &str = "$2b$04$Jjaz/0y7l3laq77ztECuFOkfBJnkeaKMTtF8Cir4ZRsTxjTMsgrNq";

#[tokio::test]
async fn a_real_prometheus_with_tls_and_a_password_is_reached_with_credentials_from_secrets() {
    let Some(program) = variable("PLIMSOLL_TEST_PROMETHEUS") else { return };
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["prometheus.example".to_owned()]).unwrap();
    let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
    let prometheus = Program::start(&program, |port, folder| {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (cert_file, key_file) = (write("tls.crt", &certificate), write("tls.key", &key));
        let web = json!({
            "tls_server_config": {"cert_file": cert_file, "key_file": key_file},
            "basic_auth_users": {"watcher": PASSWORD_HASH},
        });
        vec![
            format!("--config.file={}", write("prometheus.yml", "{}")),
            format!("--web.config.file={}", write("web.yml", &web.to_string())),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]
    })
    .await;
    let (_engine, context) = engine().await;
    secret(&context, "ca", "ca.crt", &certificate).await;
    secret(&context, "right", "password", "s3cret").await;
    secret(&context, "wrong", "password", "other").await;
    let url = format!("https://127.0.0.1:{}", prometheus.port);
    let spec = |password: &str, server_name: &str| {
        let auth =
            json!({"username": "watcher", "passwordFrom": {"name": password, "key": "password"}});
        let tls = json!({"caFrom": {"name": "ca", "key": "ca.crt"}, "serverName": server_name});
        json!({"prometheus": {"url": url, "basicAuth": auth, "tls": tls}})
    };
    let query = "vector(7)";
    let source = open(&context, spec("right", "prometheus.example"));
    assert_eq!(value(&real::ask(&*source, query).await), 7.0);
    let refused = open(&context, spec("wrong", "prometheus.example"));
    let refused = real::ask(&*refused, query).await.unwrap_err();
    assert!(
        refused.contains("refused the credentials: 401") && !refused.contains("other"),
        "{refused}"
    );
    let other_name = open(&context, spec("right", "other.example"));
    let other_name = real::ask(&*other_name, query).await.unwrap_err();
    assert!(other_name.starts_with("could not reach https://127.0.0.1:"), "{other_name}");
    let unknown =
        json!({"prometheus": {"url": url, "tls": {"caFrom": {"name": "none", "key": "ca.crt"}}}});
    let unknown = real::ask(&*open(&context, unknown), query).await.unwrap_err();
    assert!(unknown.starts_with("Secret plimsoll-system/none, key `ca.crt`: "), "{unknown}");
    let unverified = json!({"name": "right", "key": "password"});
    let unverified = json!({"prometheus": {"url": url, "basicAuth": {"username": "watcher", "passwordFrom": unverified},
                                           "tls": {"skipVerify": true}}});
    assert_eq!(value(&real::ask(&*open(&context, unverified), query).await), 7.0);
}

#[tokio::test]
async fn a_real_prometheus_is_understood() {
    let Some(program) = variable("PLIMSOLL_TEST_PROMETHEUS") else { return };
    let app = Router::new().route("/metrics", get(|| async { "queue_length 21\n" }));
    let server = Server::plain(app).await;
    let scraped = server.url.trim_start_matches("http://");
    let prometheus = Prometheus::start(&program, &["a", "b"], scraped).await;
    let (_engine, context) = engine().await;
    let spec = json!({"prometheus": {"url": prometheus.url}});
    let source =
        sources::open(&context, spec.as_object().unwrap()).map_err(|e| e.to_string()).unwrap();

    let both = "count(queue_length) == 2";
    let until = Instant::now() + Duration::from_secs(60);
    while ask(&*source, both, None).await.ok().is_none_or(|answer| answer == Answer::NoData) {
        assert!(Instant::now() < until, "nothing was scraped");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for length in [None, Some(10)] {
        let Answer::Points(series) = ask(&*source, "sum(queue_length)", length).await.unwrap()
        else {
            panic!("there are points");
        };
        let all = series.between(Timestamp::MIN, Timestamp::MAX);
        assert_eq!(all.last(), Some(&42.0), "{all:?}");
    }
    assert_eq!(ask(&*source, "no_such_metric", Some(60)).await.unwrap(), Answer::NoData);
    for length in [None, Some(60)] {
        let two = ask(&*source, "queue_length", length).await.unwrap_err().to_string();
        assert!(two.contains("2 series, among them queue_length{instance="), "{two}");
        assert!(two.contains("job=\"a\"") && two.contains("job=\"b\""), "{two}");
        let wrong = ask(&*source, "sum(", length).await.unwrap_err();
        assert!(matches!(wrong, QueryError::Refused { .. }), "{wrong}");
        assert!(
            wrong.to_string().contains("bad_data: ") && wrong.to_string().contains("parse error")
        );
    }
}
