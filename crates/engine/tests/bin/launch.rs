//! Starts the processes of the tests, and is a small Plimsoll that can be killed.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::io::Write as _;
use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kubelet::{Launcher, Local, Networking};
use plimsoll_engine::{Engine, Settings};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|arg| arg == "run").is_none() {
        return kubelet::launch::main(args);
    }
    let pod = args.next().unwrap().into_string().unwrap();
    let settings = args.next().map_or_else(Settings::ephemeral, Settings::in_directory);
    let _ = kubelet::allow_for_ordinary_users();
    tokio::runtime::Runtime::new().unwrap().block_on(run(&pod, settings));
    ExitCode::SUCCESS
}

/// Runs one pod for ever, and prints the kind of its network.
async fn run(pod: &str, settings: Settings) {
    let engine = Engine::open(settings).await.unwrap();
    let launcher = Launcher { program: std::env::current_exe().unwrap(), args: Vec::new() };
    let local = Some(Local::new(launcher));
    let running = engine.run(kubelet::Settings { local, simulated: None }).await.unwrap();
    let network = running.networking();
    let network = if *network == Networking::Namespaces {
        "namespaces".to_owned()
    } else {
        format!("{network:?}")
    };
    let mut out = std::io::stdout();
    writeln!(out, "{network}").unwrap();
    out.flush().unwrap();
    let pod: Pod = serde_json::from_str(pod).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    pods.create(&PostParams::default(), &pod).await.unwrap();
    std::future::pending::<()>().await;
}
