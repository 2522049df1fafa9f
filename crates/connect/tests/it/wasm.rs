//! Wasm modules that speak the protocol of Extism, each written by hand for one test case.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::autoscaling::Policy;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use decide::fleet::Reply;
use plimsoll_connect::Ask;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::server::Server;
use crate::{asked, failure, policy};

/// The start of every module: functions that copy texts of its own memory byte by byte.
const START: &str = include_str!("../modules/start.wat");

/// Answers with a fixed size, as text at 0.
const FIXED: &str = r#"
    (data (i32.const 0) "{\"response\":{\"scale\":true,\"replicas\":9}}")
    (func (export "scale") (result i32)
        (call $output (call $hand (i32.const 0) (i32.const 40)) (i64.const 40))
        (i32.const 0))
"#;

fn module(body: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {START} {body})")).unwrap()
}

fn wasm(server: &Server, more: &serde_json::Value) -> Policy {
    let mut wasm = json!({"from": {"url": {"url": format!("{}/m.wasm", server.url)}}});
    wasm.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    policy(json!({"type": "Wasm", "wasm": wasm}))
}

async fn serving(bytes: Vec<u8>) -> Server {
    Server::plain(Router::new().route("/m.wasm", get(move || async move { bytes }))).await
}

async fn reply_of(body: &str) -> Reply {
    let server = serving(module(body)).await;
    asked(&Ask::new(), &wasm(&server, &json!({}))).await
}

async fn fails(body: &str) -> String {
    match reply_of(body).await {
        Reply::Failed(why) => why.to_string(),
        other @ (Reply::None | Reply::Keep | Reply::Scale(_)) => {
            panic!("expected a failure, found {other:?}")
        }
    }
}

#[tokio::test]
async fn a_module_returns_the_size() {
    assert_eq!(reply_of(FIXED).await, Reply::Scale(9));
}

#[tokio::test]
async fn a_module_is_given_the_question() {
    // The first byte of the question, `{`, is 123; the answer's size is written over its three digits.
    let echo = r#"
        (data (i32.const 0) "{\"response\":{\"scale\":true,\"replicas\":000}}")
        (func (export "scale") (result i32) (local $n i32)
            (if (i64.lt_u (call $input_length) (i64.const 50)) (then (unreachable)))
            (local.set $n (call $input (i64.const 0)))
            (i32.store8 (i32.const 37) (i32.add (i32.const 48) (i32.div_u (local.get $n) (i32.const 100))))
            (i32.store8 (i32.const 38) (i32.add (i32.const 48)
                (i32.rem_u (i32.div_u (local.get $n) (i32.const 10)) (i32.const 10))))
            (i32.store8 (i32.const 39) (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
            (call $output (call $hand (i32.const 0) (i32.const 42)) (i64.const 42))
            (i32.const 0))"#;
    assert_eq!(reply_of(echo).await, Reply::Scale(i32::from(b'{')));
}

#[tokio::test]
async fn a_module_sizes_a_fleet_by_what_is_in_use() {
    assert_eq!(reply_of(include_str!("../modules/spare.wat")).await, Reply::Scale(8));
}

#[tokio::test]
async fn a_module_reads_its_configuration_and_remembers_between_questions() {
    // The answer's one digit is that of `spare`, plus how often it was asked before.
    let counting = r#"
        (data (i32.const 0) "{\"response\":{\"scale\":true,\"replicas\":0}}")
        (data (i32.const 100) "spare")
        (data (i32.const 110) "last")
        (func (export "scale") (result i32) (local $last i64) (local $n i32)
            (local.set $last (call $recall (call $hand (i32.const 110) (i32.const 4))))
            (if (i64.ne (local.get $last) (i64.const 0))
                (then (local.set $n (call $load (local.get $last)))))
            (i32.store8 (i32.const 37) (i32.add (local.get $n)
                (call $load (call $config (call $hand (i32.const 100) (i32.const 5))))))
            (i32.store8 (i32.const 120) (i32.add (local.get $n) (i32.const 1)))
            (call $remember (call $hand (i32.const 110) (i32.const 4)) (call $hand (i32.const 120) (i32.const 1)))
            (call $output (call $hand (i32.const 0) (i32.const 40)) (i64.const 40))
            (i32.const 0))"#;
    let server = serving(module(counting)).await;
    let ask = Ask::new();
    let spare = |n: &str| wasm(&server, &json!({"config": {"spare": n}}));
    assert_eq!(asked(&ask, &spare("3")).await, Reply::Scale(3));
    assert_eq!(asked(&ask, &spare("3")).await, Reply::Scale(4));
    assert_eq!(
        asked(&ask, &spare("5")).await,
        Reply::Scale(5),
        "another configuration starts anew"
    );
    ask.forget("fas");
    assert_eq!(asked(&ask, &spare("5")).await, Reply::Scale(5), "and so does what was forgotten");
}

#[tokio::test]
async fn errors_of_a_module_are_reported() {
    for (body, expected) in [
        (r#"(func (export "other"))"#, "it has no function `scale`"),
        (r#"(func (export "scale") (param i32))"#, "`scale` takes parameters"),
        (r#"(func (export "scale") (result i32) (i32.const 3))"#, "it returned 3"),
        (r#"(func (export "scale") (unreachable))"#, "unreachable"),
        (r#"(func (export "scale") (loop $on (br $on)))"#, "it did not finish"),
        (r#"(func (export "scale") (drop (memory.grow (i32.const 60000))))"#, "memory"),
        (r#"(func (export "scale") (drop (call $alloc (i64.const 99999999))))"#, "too much memory"),
        (
            r#"(func (export "scale") (drop (call $http (i64.const 0) (i64.const 0))))"#,
            "cannot make HTTP requests",
        ),
        (
            r#"(func (export "scale") (drop (call $load (i64.const 5))))"#,
            "is outside its blocks of memory",
        ),
        (
            r#"(func (export "scale") (drop (call $random (i32.const 65530) (i32.const 99))))"#,
            "outside of its own memory",
        ),
        (
            r#"(data (i32.const 0) "no luck")
               (func (export "scale") (result i32)
                   (call $error (call $hand (i32.const 0) (i32.const 7))) (i32.const 1))"#,
            "`scale` of the module failed: no luck",
        ),
        (r#"(func (export "scale"))"#, "did not return a FleetAutoscaleReview: not JSON"),
        (r#"(import "env" "x" (func)) (func (export "scale"))"#, "env"),
    ] {
        let body = body.to_owned();
        // An import has to come first.
        let found = match body.strip_prefix(r#"(import "env" "x" (func))"#) {
            None => fails(&body).await,
            Some(rest) => {
                let text = format!(r#"(module (import "env" "x" (func)) {rest})"#);
                let server = serving(wat::parse_str(text).unwrap()).await;
                failure(&Ask::new(), &wasm(&server, &json!({}))).await
            }
        };
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
}

#[tokio::test]
async fn a_module_is_stopped_when_its_autoscaler_is_deleted() {
    let server = serving(module(r#"(func (export "scale") (loop $on (br $on)))"#)).await;
    let (ask, policy) = (Arc::new(Ask::new()), wasm(&server, &json!({})));
    let asking = tokio::spawn({
        let ask = Arc::clone(&ask);
        async move { failure(&ask, &policy).await }
    });
    while !asking.is_finished() {
        ask.forget("fas");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let why = asking.await.unwrap();
    assert!(why.contains("the caller has cancelled it"), "{why}");
}

#[tokio::test]
async fn wasi_is_there_as_far_as_modules_need_it() {
    let printing = format!(
        r#"(data (i32.const 200) "hello") (data (i32.const 300) "\c8\00\00\00\05\00\00\00")
        (func (export "_initialize")
            (if (call $write (i32.const 1) (i32.const 300) (i32.const 1) (i32.const 400)) (then (unreachable)))
            (if (i32.ne (i32.load (i32.const 400)) (i32.const 5)) (then (unreachable)))
            (if (i32.ne (i32.const 52) (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0))) (then (unreachable)))
            (if (call $random (i32.const 500) (i32.const 8)) (then (unreachable))))
        {FIXED}"#
    );
    assert_eq!(reply_of(&printing).await, Reply::Scale(9));
}

#[tokio::test]
async fn a_module_must_be_the_one_whose_hash_is_given() {
    let bytes = module(FIXED);
    let hash: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect();
    let server = serving(bytes).await;
    let ask = Ask::new();
    assert_eq!(asked(&ask, &wasm(&server, &json!({"hash": hash}))).await, Reply::Scale(9));
    let other = failure(&ask, &wasm(&server, &json!({"hash": "00".repeat(32)}))).await;
    assert!(other.contains("the SHA-256 of the module is"), "{other}");
    let nothing = serving(b"hello".to_vec()).await;
    let found = failure(&ask, &wasm(&nothing, &json!({}))).await;
    assert!(found.contains("the module cannot be used"), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_module_is_fetched_again_after_five_minutes_and_kept_when_that_fails() {
    let fetched = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&fetched);
    let app = Router::new().route(
        "/m.wasm",
        get(move || async move {
            match counted.fetch_add(1, Ordering::SeqCst) {
                0 => (StatusCode::OK, module(FIXED)),
                1 => (StatusCode::OK, module(&FIXED.replace('9', "8"))),
                _ => (StatusCode::NOT_FOUND, Vec::new()),
            }
        }),
    );
    let server = Server::plain(app).await;
    let (ask, policy) = (Ask::new(), wasm(&server, &json!({})));
    for (passed, replicas, fetches) in [(0, 9, 1), (200, 9, 1), (200, 8, 2), (400, 8, 3)] {
        tokio::time::advance(Duration::from_secs(passed)).await;
        assert_eq!(asked(&ask, &policy).await, Reply::Scale(replicas));
        assert_eq!(fetched.load(Ordering::SeqCst), fetches);
    }
}
