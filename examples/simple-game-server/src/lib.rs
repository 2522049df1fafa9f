//! A sample game server: text commands over UDP and TCP call the SDK.
//!
//! Its commands, replies and flags are those of Agones' simple-game-server.

mod allocations;
mod commands;
mod health;
mod reserve;
mod settings;
mod sockets;
mod span;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;

use agones::Sdk;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub use settings::Settings;

/// An error that ended the game server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The SDK server cannot be reached, or the connection was lost.
    #[error("the SDK server does not answer: {0}")]
    Sdk(String),
    /// The address cannot be bound.
    #[error("could not listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// `--passthrough` is set, but the GameServer has no port.
    #[error("the GameServer has no port to listen on")]
    NoPort,
    /// Another error of the operating system.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<agones::errors::Error> for Error {
    fn from(err: agones::errors::Error) -> Self {
        Self::Sdk(commands::why(err))
    }
}

/// Runs the program: parses the flags, with one or two dashes, and serves until it is terminated.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match Settings::read(args, |name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(err) => err.exit(),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ended = runtime.map_err(Error::from).and_then(|runtime| {
        let ended = runtime.block_on(run(settings));
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(err) => {
            eprintln!("simple-game-server: {err}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until SIGTERM, SIGINT or the command CRASH. Returns the exit code.
pub async fn run(settings: Settings) -> Result<u8, Error> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let (crash, mut crashed) = mpsc::channel(1);
    let shutdown = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        eprintln!("terminating");
        tokio::time::sleep(settings.graceful_termination_delay()).await;
    };
    tokio::select! {
        failed = serve(&settings, crash) => failed.map(|()| 0),
        code = crashed.recv() => Ok(code.unwrap_or(0)),
        () = shutdown => Ok(0),
    }
}

/// Serves players; ends only with an error.
async fn serve(settings: &Settings, crash: mpsc::Sender<u8>) -> Result<(), Error> {
    let mut sdk = Sdk::new(None, None).await?;
    let pulse = health::start(&sdk);
    let port = if settings.passthrough { first_port(&mut sdk).await? } else { settings.port };
    let game = commands::Game { sdk: sdk.clone(), pulse, crash, is_over: false };
    let address = SocketAddr::new(settings.address, port);
    let sockets = sockets::Sockets::open(address, settings.udp, settings.tcp).await?;
    eprintln!("listening on {address}");
    if let Some(span) = settings.automatic_shutdown_delay() {
        let rounds = settings.ready_iterations.max(0);
        tokio::spawn(allocations::shut_down_after(sdk.clone(), span, rounds.unsigned_abs()));
    }
    let become_ready = async {
        if settings.ready {
            tokio::time::sleep(settings.ready_delay()).await;
            sdk.ready().await?;
            eprintln!("sent Ready");
        }
        std::future::pending::<Result<(), Error>>().await
    };
    tokio::select! {
        failed = become_ready => failed,
        failed = sockets.answer(game) => failed,
    }
}

async fn first_port(sdk: &mut Sdk) -> Result<u16, Error> {
    let status = sdk.get_gameserver().await?.status.unwrap_or_default();
    let port = status.ports.first().and_then(|port| u16::try_from(port.port).ok());
    port.ok_or(Error::NoPort)
}
