//! Flags and environment variables, parsed as in Go programs.

use std::ffi::OsString;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory as _, Parser};

/// A sample game server: it takes text commands over UDP or TCP
#[derive(Clone, Debug, Parser)]
#[command(name = "simple-game-server", version)]
pub struct Settings {
    /// The port to listen on [env: PORT]
    #[arg(long, default_value_t = 7654)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    pub address: IpAddr,
    /// Listen on the first port that the GameServer's status names instead [env: PASSTHROUGH]
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, value_parser = truth, default_value = "false", default_missing_value = "true")]
    pub passthrough: bool,
    /// Call Ready by itself [env: READY]
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, value_parser = truth, default_value = "true", default_missing_value = "true")]
    pub ready: bool,
    /// Listen on UDP [env: UDP]
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, value_parser = truth, default_value = "true", default_missing_value = "true")]
    pub udp: bool,
    /// Listen on TCP [env: TCP]
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, value_parser = truth, default_value = "false", default_missing_value = "true")]
    pub tcp: bool,
    /// Seconds to wait before it calls Ready
    #[arg(long = "readyDelaySec", default_value_t = 0, allow_negative_numbers = true)]
    pub ready_delay_sec: i64,
    /// Seconds after an allocation at which it shuts down by itself; 0 means never
    #[arg(long = "automaticShutdownDelaySec", default_value_t = 0, allow_negative_numbers = true)]
    pub automatic_shutdown_delay_sec: i64,
    /// The same in minutes
    #[arg(long = "automaticShutdownDelayMin", default_value_t = 0, allow_negative_numbers = true)]
    pub automatic_shutdown_delay_min: i64,
    /// Number of times that it returns to Ready before it shuts down by itself
    #[arg(long = "readyIterations", default_value_t = 0, allow_negative_numbers = true)]
    pub ready_iterations: i64,
    /// Seconds to keep running after SIGTERM
    #[arg(
        long = "gracefulTerminationDelaySec",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub graceful_termination_delay_sec: i64,
}

impl Settings {
    /// Reads the flags, with one dash or two, and then the environment, which takes precedence. An empty variable counts as
    /// unset.
    pub fn read(
        args: impl IntoIterator<Item = OsString>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, clap::Error> {
        let mut settings = Self::try_parse_from(args.into_iter().map(two_dashes))?;
        let number = |text: &str| u16::from_str(text).map_err(|err| err.to_string());
        override_with(&mut settings.port, &env, "PORT", number)?;
        for (setting, name) in [
            (&mut settings.passthrough, "PASSTHROUGH"),
            (&mut settings.ready, "READY"),
            (&mut settings.udp, "UDP"),
            (&mut settings.tcp, "TCP"),
        ] {
            override_with(setting, &env, name, truth)?;
        }
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), clap::Error> {
        let (seconds, minutes) =
            (self.automatic_shutdown_delay_sec, self.automatic_shutdown_delay_min);
        if seconds > 0 && minutes > 0 {
            let why = "set automaticShutdownDelaySec or automaticShutdownDelayMin, not both";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, why));
        }
        if self.ready_iterations > 0 && seconds <= 0 && minutes <= 0 {
            let why = "readyIterations needs automaticShutdownDelaySec";
            return Err(Self::command().error(ErrorKind::MissingRequiredArgument, why));
        }
        Ok(())
    }

    pub(crate) fn ready_delay(&self) -> Duration {
        seconds(self.ready_delay_sec)
    }

    pub(crate) fn graceful_termination_delay(&self) -> Duration {
        seconds(self.graceful_termination_delay_sec)
    }

    /// Returns the delay between an allocation and the automatic shutdown, if any.
    pub(crate) fn automatic_shutdown_delay(&self) -> Option<Duration> {
        let minutes = seconds(self.automatic_shutdown_delay_min).saturating_mul(60);
        let span = seconds(self.automatic_shutdown_delay_sec).max(minutes);
        (!span.is_zero()).then_some(span)
    }
}

/// Reads a number of seconds; a negative number is 0.
fn seconds(number: i64) -> Duration {
    Duration::from_secs(number.max(0).unsigned_abs())
}

fn override_with<T>(
    setting: &mut T,
    env: impl Fn(&str) -> Option<String>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(), clap::Error> {
    if let Some(text) = env(name).filter(|text| !text.is_empty()) {
        *setting = parse(&text).map_err(|why| {
            Settings::command().error(ErrorKind::ValueValidation, format!("{name}={text}: {why}"))
        })?;
    }
    Ok(())
}

/// Parses a boolean as Go does, ignoring case.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Ok(true),
        "0" | "f" | "false" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Rewrites `-port` as `--port`, because manifests for Go programs use one dash.
fn two_dashes(arg: OsString) -> OsString {
    match arg.to_str() {
        Some(text) if is_flag(text) => format!("-{text}").into(),
        _ => arg,
    }
}

/// Whether an argument is a flag with one dash and a name, and not a negative number.
fn is_flag(text: &str) -> bool {
    let name = text.strip_prefix('-').unwrap_or_default();
    name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, clap::Error> {
        let args = ["x"].iter().chain(args).map(OsString::from);
        let find = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Settings::read(args, find)
    }

    #[test]
    fn flags_may_have_one_dash_as_in_go() {
        let flags = ["-port", "7000", "-udp=false", "--tcp", "-readyDelaySec=3"];
        let settings = read(&flags, &[]).unwrap();
        assert_eq!((settings.port, settings.udp, settings.tcp), (7000, false, true));
        assert_eq!(settings.ready_delay(), Duration::from_secs(3));
        let settings = read(&["-readyDelaySec", "-1"], &[]).unwrap();
        assert_eq!(settings.ready_delay(), Duration::ZERO, "a negative number is 0");
    }

    #[test]
    fn booleans_are_read_in_every_form_of_go() {
        for text in ["1", "t", "T", "TRUE", "true", "True", "tRuE"] {
            assert!(read(&[], &[("TCP", text)]).unwrap().tcp, "TCP={text}");
            assert!(read(&[&format!("-tcp={text}")], &[]).unwrap().tcp, "-tcp={text}");
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert!(!read(&[], &[("UDP", text)]).unwrap().udp, "UDP={text}");
            assert!(!read(&[&format!("-udp={text}")], &[]).unwrap().udp, "-udp={text}");
        }
        assert!(read(&[], &[("READY", "maybe")]).is_err());
        assert!(read(&["-ready=maybe"], &[]).is_err());
    }

    #[test]
    fn the_environment_counts_more_than_flags_and_empty_is_not_set() {
        let env = [("PORT", "7001"), ("TCP", ""), ("READY", "FALSE")];
        let settings = read(&["-port=7000", "-tcp", "-ready"], &env).unwrap();
        assert_eq!((settings.port, settings.tcp, settings.ready), (7001, true, false));
    }

    #[test]
    fn delays_that_contradict_each_other_are_refused() {
        let both = ["-automaticShutdownDelaySec=1", "-automaticShutdownDelayMin=1"];
        assert!(read(&both, &[]).is_err());
        assert!(read(&["-readyIterations=2"], &[]).is_err());
        let minutes = read(&["-automaticShutdownDelayMin=2"], &[]).unwrap();
        assert_eq!(minutes.automatic_shutdown_delay(), Some(Duration::from_secs(120)));
    }
}
