//! Images that stand for programs in this process.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use kubelet::{Program, ProgramContext, ProgramPort};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{local, machine, shell, states};

/// Greets each client until it is stopped.
struct Greeter;

impl Program for Greeter {
    fn ports(&self, _: &Pod, _: &Container) -> Vec<ProgramPort> {
        vec![ProgramPort { port: 9357, env: "GREETER_PORT".to_owned() }]
    }

    fn run(&self, context: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            let listener = context.listen_tcp(9357).await.unwrap();
            context.log(&format!(
                "greeting for {} with {}",
                context.env["WHO"],
                context.args.join(" ")
            ));
            loop {
                tokio::select! {
                    () = context.stop.cancelled() => return 0,
                    accepted = listener.accept() => {
                        let (mut stream, _) = accepted.unwrap();
                        stream.write_all(b"hello\n").await.unwrap();
                    }
                }
            }
        })
    }
}

#[tokio::test]
async fn a_program_in_this_process_serves_the_other_containers_of_its_pod() {
    let mut local = local();
    local.programs.add("greeter", Arc::new(Greeter));
    let machine = machine(local).await;
    let greeter = json!({
        "name": "greeter", "image": "greeter:1", "restartPolicy": "Always", "args": ["$(WHO)"],
        "env": [{"name": "WHO", "value": "me"}],
    });
    let ask = "import os,socket; s=socket.create_connection(('127.0.0.1',int(os.environ.get('GREETER_PORT','9357')))); \
               print(s.recv(100).decode(), end='')";
    let main = json!({"name": "main", "image": "i", "command": ["python3", "-c", ask]});
    for name in ["a", "b"] {
        let spec =
            json!({"restartPolicy": "Never", "initContainers": [greeter], "containers": [main]});
        machine.create(name, spec).await;
    }
    for name in ["a", "b"] {
        let ended = machine.until_phase(name, "Succeeded").await;
        assert_eq!(states(&ended)["greeter"], (Some(0), 0), "it was stopped, and stopped");
        assert_eq!(machine.logs(name).await, "hello\n");
        let of_greeter =
            kube::api::LogParams { container: Some("greeter".to_owned()), ..Default::default() };
        let logs = machine.pods().logs(name, &of_greeter).await.unwrap();
        assert_eq!(logs, "greeting for me with me\n");
    }
}

/// Fails as badly as a program can.
struct Panics;

impl Program for Panics {
    fn ports(&self, _: &Pod, _: &Container) -> Vec<ProgramPort> {
        Vec::new()
    }

    fn run(&self, _: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async { panic!("on purpose") })
    }
}

#[tokio::test]
async fn a_program_that_panics_is_a_container_that_failed() {
    let mut local = local();
    local.programs.add("panics", Arc::new(Panics));
    let machine = machine(local).await;
    machine
        .create(
            "a",
            json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "panics"}]}),
        )
        .await;
    let ended = machine.until_phase("a", "Failed").await;
    assert_eq!(states(&ended)["c"], (Some(2), 0));
    let fine = json!({"restartPolicy": "Never", "containers": [shell("c", "true")]});
    machine.create("b", fine).await;
    machine.until_phase("b", "Succeeded").await;
    machine.runtime.stop(Duration::from_secs(1)).await;
}
