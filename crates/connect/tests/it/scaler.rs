//! The metric source `externalScaler` on a scaler that is written with grpcio.

use futures::StreamExt as _;
use plimsoll_connect::sources::Answer;
use serde_json::json;

use crate::engine;
use crate::real::{Program, ask, ask_about, open, target, value, variable};

#[tokio::test]
async fn an_external_scaler_is_asked_and_may_push() {
    let Some(python) = variable("PLIMSOLL_TEST_PYTHON") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/scaler.py");
    let scaler = Program::start(&python, |port, folder| {
        vec![script.to_owned(), port.to_string(), folder.display().to_string()]
    })
    .await;
    let (_engine, context) = engine().await;
    let address = format!("127.0.0.1:{}", scaler.port);
    let spec = |metadata| json!({"timeout": "2s", "externalScaler": {"address": address, "metadata": metadata}});
    let source = open(&context, spec(json!({"token": "t"})));
    assert_eq!(value(&ask(&*source, "length").await), 12.5);
    assert_eq!(value(&ask(&*source, "whole").await), 7.0);
    assert_eq!(ask(&*source, "none").await, Ok(Answer::NoData));
    let idle = target(json!({"kind": "Deployment", "name": "idle"}));
    assert_eq!(value(&ask_about(&*source, "length", Some(idle)).await), 0.0);
    let slow = ask(&*source, "slow").await.unwrap_err();
    assert!(slow.starts_with("no answer within "), "{slow}");
    let refused = ask(&*open(&context, spec(json!({}))), "length").await.unwrap_err();
    assert!(refused.ends_with("refused the credentials: who are you?"), "{refused}");
    let mut changes = source.changes().unwrap();
    for _ in 0..3 {
        changes.next().await.unwrap();
    }
    drop((changes, scaler));
    let down = ask(&*source, "length").await.unwrap_err();
    assert!(down.starts_with("could not reach 127.0.0.1:"), "{down}");
}
