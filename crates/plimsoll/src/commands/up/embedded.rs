//! Everything there is, on the embedded engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use engine::runtime::{self, Launcher, Local, Networking, Runtime, Simulated};
use engine::{Delegate, Engine};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use serve::allocator::{self, Allocator};
use simulate::game::Player;
use tokio::task::JoinSet;
use tower::BoxError;

use crate::args::Up;
use crate::measuring;
use crate::sidecar::Sidecar;

/// The name of the image that the binary carries a program for, wherever the image is said to come from.
const SAMPLE: &str = "simple-game-server";

/// How long game servers may take to end when everything ends.
const GRACE: Duration = Duration::from_secs(10);

/// The parts that run on an engine.
pub(crate) struct Parts {
    controllers: JoinSet<()>,
    runtime: Runtime,
}

impl Parts {
    /// Starts the runtime, the controllers and the allocator.
    pub(crate) async fn start(engine: &Engine, args: &Up) -> anyhow::Result<Self> {
        let client = engine.client();
        let mut controllers = JoinSet::new();
        let recorder = measuring::serve(&client, args.metrics, &mut controllers).await?;
        // The engine reads of an object only what a patch names.
        let settings =
            allocator::Settings { recorder, replaces: false, ..allocator::Settings::default() };
        let allocator = Allocator::start(client.clone(), settings).await;
        engine.delegate("allocation.agones.dev", "v1", door(allocator));
        let gates = args.gates.feature_gates.clone();
        let settings = control::Settings { gates, ..control::Settings::default() };
        let runtime = engine.run(machine(client.clone(), &settings, args)?).await?;
        controllers.spawn(async move {
            control::run(client, settings, &control::Part::ALL, std::future::pending()).await;
        });
        Ok(Self { controllers, runtime })
    }

    /// Says what of this machine pods cannot have.
    pub(crate) fn lacks(&self) -> Option<String> {
        let Networking::Host { why } = self.runtime.networking() else { return None };
        Some(format!(
            "pods share this machine's network ({why}): game servers get their ports from PORT, AGONES_SDK_GRPC_PORT and \
             AGONES_SDK_HTTP_PORT"
        ))
    }

    /// Stops everything that runs. Nobody is left who would see game servers end and replace them.
    pub(crate) async fn stop(mut self) {
        self.controllers.shutdown().await;
        self.runtime.stop(GRACE).await;
    }
}

/// What this machine runs.
fn machine(
    client: Client,
    settings: &control::Settings,
    args: &Up,
) -> anyhow::Result<runtime::Settings> {
    let own = std::env::current_exe().context("could not find the program that runs")?;
    let mut local = Local::new(Launcher { program: own.clone(), args: vec![crate::LAUNCH.into()] });
    local.programs.add(settings.sidecar.image.clone(), Sidecar::new(client.clone()));
    let sample = vec![own.to_string_lossy().into_owned(), "sample-server".to_owned()];
    local.images = BTreeMap::from([(SAMPLE.to_owned(), sample)]);
    local.docker = runtime::usual_docker();
    local.images.extend(args.images.iter().cloned());
    let simulated = Simulated {
        count: args.simulated_nodes,
        simulation: Some(Arc::new(Player::new(client))),
        ..Simulated::default()
    };
    let local = (args.simulated_nodes == 0).then_some(local);
    Ok(runtime::Settings { local, simulated: Some(simulated) })
}

/// The allocator as the engine's service for its group.
fn door(allocator: Allocator) -> Delegate {
    let answer = move |request: Request<Full<Bytes>>| {
        let allocator = allocator.clone();
        async move {
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, body.collect().await?.to_bytes());
            let answer = allocator::kubernetes::answer(&allocator, request).await;
            Ok::<_, BoxError>(answer.map(|body| Full::new(body).boxed_unsync()))
        }
    };
    Delegate::new(tower::service_fn(answer))
}
