//! The SDK server as a built-in program of the embedded kubelet, which runs it for the sidecar's image.

use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Client;
use kubelet::{Program, ProgramContext, ProgramPort};
use process::Supervisor;
use serve::sdk::{Listeners, Settings};

/// The port for the liveness probes of the game server's container.
const HEALTH_PORT: u16 = 8080;

/// Runs the SDK server of a pod.
pub(crate) struct Sidecar {
    client: Client,
    supervisor: Supervisor,
}

impl Sidecar {
    pub(crate) fn new(client: Client, supervisor: Supervisor) -> Arc<Self> {
        Arc::new(Self { client, supervisor })
    }
}

impl Program for Sidecar {
    fn ports(&self, _: &Pod, container: &Container) -> Vec<ProgramPort> {
        let args = container.args.as_deref().unwrap_or_default();
        let port = |port, env: &str| ProgramPort { port, env: env.to_owned() };
        vec![
            port(flag(args, "--grpc-port=").unwrap_or(9357), "AGONES_SDK_GRPC_PORT"),
            port(flag(args, "--http-port=").unwrap_or(9358), "AGONES_SDK_HTTP_PORT"),
            port(HEALTH_PORT, ""),
        ]
    }

    fn run(&self, context: ProgramContext) -> BoxFuture<'static, i32> {
        let (client, supervisor) = (self.client.clone(), self.supervisor.clone());
        async move {
            match serve_sdk(client, supervisor, &context).await {
                Ok(()) => 0,
                Err(err) => {
                    context.log(&format!("{err:#}"));
                    1
                }
            }
        }
        .boxed()
    }
}

async fn serve_sdk(
    client: Client,
    supervisor: Supervisor,
    context: &ProgramContext,
) -> anyhow::Result<()> {
    let env =
        |key: &str| context.env.get(key).cloned().with_context(|| format!("{key} is not set"));
    let settings = Settings::new(env("POD_NAMESPACE")?, env("GAMESERVER_NAME")?);
    let settings = Settings { supervisor, ..settings };
    let listen = async |port: u16| {
        let listener = context.listen_tcp(port).await;
        listener.with_context(|| format!("could not listen on port {port} of the pod"))
    };
    let listeners = Listeners {
        grpc: listen(flag(&context.args, "--grpc-port=").unwrap_or(9357)).await?,
        http: listen(flag(&context.args, "--http-port=").unwrap_or(9358)).await?,
        health: Some(listen(HEALTH_PORT).await?),
    };
    serve::sdk::run(client, settings, listeners, context.stop.clone().cancelled_owned()).await?;
    Ok(())
}

fn flag(args: &[String], name: &str) -> Option<u16> {
    args.iter().find_map(|arg| arg.strip_prefix(name)?.parse().ok())
}
