//! A game server to try things with: it answers text commands over UDP and TCP, and drives the SDK with them.
//!
//! Its commands, replies and flags are those that people know from Agones' own.

mod allocations;
mod commands;
mod health;
mod sockets;
mod span;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use agones::Sdk;
use clap::{ArgAction, Parser};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// A game server to try things with: send it text over UDP or TCP
#[derive(Clone, Debug, Parser)]
#[command(name = "simple-game-server", version)]
pub struct Settings {
    /// The port to listen on
    #[arg(long, env = "PORT", default_value_t = 7654)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    pub address: IpAddr,
    /// Listen on the first port that the GameServer's status names instead
    #[arg(long, env = "PASSTHROUGH", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub passthrough: bool,
    /// Say that it is ready by itself
    #[arg(long, env = "READY", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub ready: bool,
    /// Listen on UDP
    #[arg(long, env = "UDP", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub udp: bool,
    /// Listen on TCP
    #[arg(long, env = "TCP", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub tcp: bool,
    /// Seconds to wait before it says that it is ready
    #[arg(long = "readyDelaySec", default_value_t = 0)]
    pub ready_delay_sec: u64,
    /// Seconds after an allocation at which it shuts down by itself; 0 is never
    #[arg(long = "automaticShutdownDelaySec", default_value_t = 0)]
    pub automatic_shutdown_delay_sec: u64,
    /// How often it goes back to Ready before it shuts down by itself
    #[arg(long = "readyIterations", default_value_t = 0)]
    pub ready_iterations: u64,
    /// Seconds to go on after SIGTERM
    #[arg(long = "gracefulTerminationDelaySec", default_value_t = 0)]
    pub graceful_termination_delay_sec: u64,
}

/// Why the game server ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no SDK server, or it went away.
    #[error("the SDK server does not answer: {0}")]
    Sdk(String),
    /// It cannot listen.
    #[error("could not listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// It was told to take its port from the GameServer, which has none.
    #[error("the GameServer has no port to listen on")]
    NoPort,
    /// Something else that the system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<agones::errors::Error> for Error {
    fn from(err: agones::errors::Error) -> Self {
        Self::Sdk(commands::why(err))
    }
}

/// Is the program: reads the flags, with one dash or two, and runs until it is told to end.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let settings = match Settings::try_parse_from(args.into_iter().map(two_dashes)) {
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

/// Writes `-port` as `--port`, for people and manifests used to Go's flags.
fn two_dashes(arg: OsString) -> OsString {
    match arg.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            format!("-{text}").into()
        }
        _ => arg,
    }
}

/// Runs until SIGTERM, SIGINT or the command CRASH. Gives the exit code.
pub async fn run(settings: Settings) -> Result<u8, Error> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let (crash, mut crashed) = mpsc::channel(1);
    let ended = async {
        tokio::select! {
            _ = terminated.recv() => None,
            _ = interrupted.recv() => None,
            code = crashed.recv() => code,
        }
    };
    let serving = serve(&settings, crash);
    tokio::select! {
        failed = serving => failed.map(|()| 0),
        code = ended => {
            if code.is_none() {
                eprintln!("told to end");
                tokio::time::sleep(Duration::from_secs(settings.graceful_termination_delay_sec)).await;
            }
            Ok(code.unwrap_or(0))
        }
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
    if settings.automatic_shutdown_delay_sec > 0 {
        let span = Duration::from_secs(settings.automatic_shutdown_delay_sec);
        tokio::spawn(allocations::shut_down_after(sdk.clone(), span, settings.ready_iterations));
    }
    let become_ready = async {
        if settings.ready {
            tokio::time::sleep(Duration::from_secs(settings.ready_delay_sec)).await;
            sdk.ready().await?;
            eprintln!("said that it is ready");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_may_have_one_dash_as_in_go() {
        let args = ["x", "-port", "7000", "-udp=false", "--tcp", "-readyDelaySec=3"];
        let settings = Settings::parse_from(args.into_iter().map(OsString::from).map(two_dashes));
        assert_eq!((settings.port, settings.udp, settings.tcp), (7000, false, true));
        assert_eq!(settings.ready_delay_sec, 3);
    }
}
