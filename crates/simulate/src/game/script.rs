//! The scripts of simulated game servers.
//!
//! `ready=2s shutdown=10m`: the steps of a simulated game server, each with its time after the start of the pod.

use std::str::FromStr;
use std::time::Duration;

use decide::duration;

/// The annotation of a pod that holds its script.
pub const ANNOTATION: &str = "plimsoll.dev/simulate";

/// A step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It becomes Ready.
    Ready,
    /// It sends no more health pings.
    StopHealthPings,
    /// It shuts down.
    Shutdown,
    /// Its process exits without a call.
    Crash {
        /// The exit code.
        code: i32,
    },
}

/// The steps of a game server, ordered by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(Vec<(Duration, Step)>);

impl Script {
    /// Returns every step with its time after the start of the pod.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, Step)> + use<'_> {
        self.0.iter().copied()
    }
}

/// A game server that becomes Ready at once and stays so.
impl Default for Script {
    fn default() -> Self {
        Self(vec![(Duration::ZERO, Step::Ready)])
    }
}

/// An invalid script.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{word}` in {ANNOTATION}: expected ready=TIME, silent=TIME, shutdown=TIME or crash=TIME[:CODE], with a TIME like 1.5s or 10m"
)]
pub struct BadScript {
    word: String,
}

impl FromStr for Script {
    type Err = BadScript;

    fn from_str(text: &str) -> Result<Self, BadScript> {
        let words = text.split([' ', ',', '\n']).filter(|word| !word.is_empty());
        let mut steps = words
            .map(|word| step(word).ok_or_else(|| BadScript { word: word.to_owned() }))
            .collect::<Result<Vec<_>, _>>()?;
        steps.sort_by_key(|(after, _)| *after);
        Ok(Self(steps))
    }
}

fn step(word: &str) -> Option<(Duration, Step)> {
    let (name, rest) = word.split_once('=')?;
    let (time, code) = match rest.split_once(':') {
        Some((time, code)) if name == "crash" => (time, code.parse().ok()?),
        Some(_) => return None,
        None => (rest, 1),
    };
    let after = Duration::try_from(duration::parse(time).ok()?).ok()?;
    let step = match name {
        "ready" => Step::Ready,
        "silent" => Step::StopHealthPings,
        "shutdown" => Step::Shutdown,
        "crash" => Step::Crash { code },
        _ => return None,
    };
    Some((after, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_played_in_the_order_of_time() {
        let script: Script = "shutdown=1m, ready=1.5s crash=2m:3".parse().unwrap();
        let expected = [
            (Duration::from_millis(1500), Step::Ready),
            (Duration::from_secs(60), Step::Shutdown),
            (Duration::from_secs(120), Step::Crash { code: 3 }),
        ];
        assert_eq!(script.steps().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_empty_script_does_nothing() {
        assert_eq!("".parse::<Script>().unwrap().steps().count(), 0);
    }

    #[test]
    fn a_bad_word_is_named() {
        for word in ["ready", "ready=soon", "dance=1s", "ready=1s:2", "crash=1s:x", "ready=-1s"] {
            let problem = format!("silent=1s {word}").parse::<Script>().unwrap_err();
            assert!(problem.to_string().contains(word), "{problem}");
        }
    }
}
