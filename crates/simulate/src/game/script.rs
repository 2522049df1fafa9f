//! Which words make a script?
//!
//! `ready=2s shutdown=10m`: what a simulated game server does, and how long after its pod began to run.

use std::str::FromStr;
use std::time::Duration;

use decide::duration;

/// The annotation of a pod that holds its script.
pub const ANNOTATION: &str = "plimsoll.dev/simulate";

/// Something that a game server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Says that it is ready.
    Ready,
    /// Sends no more signs of life.
    FallSilent,
    /// Says that it is done.
    Shutdown,
    /// Ends, without a word.
    Crash {
        /// The code that its process ends with.
        code: i32,
    },
}

/// What a game server does, and when, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(Vec<(Duration, Deed)>);

impl Script {
    /// Gives every deed with the time from the moment the pod runs.
    pub fn deeds(&self) -> impl Iterator<Item = (Duration, Deed)> + use<'_> {
        self.0.iter().copied()
    }
}

/// A game server that is ready at once and stays.
impl Default for Script {
    fn default() -> Self {
        Self(vec![(Duration::ZERO, Deed::Ready)])
    }
}

/// A script that cannot be played.
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
        let mut deeds = words
            .map(|word| deed(word).ok_or_else(|| BadScript { word: word.to_owned() }))
            .collect::<Result<Vec<_>, _>>()?;
        deeds.sort_by_key(|(after, _)| *after);
        Ok(Self(deeds))
    }
}

fn deed(word: &str) -> Option<(Duration, Deed)> {
    let (name, rest) = word.split_once('=')?;
    let (time, code) = match rest.split_once(':') {
        Some((time, code)) if name == "crash" => (time, code.parse().ok()?),
        Some(_) => return None,
        None => (rest, 1),
    };
    let after = Duration::try_from(duration::parse(time).ok()?).ok()?;
    let deed = match name {
        "ready" => Deed::Ready,
        "silent" => Deed::FallSilent,
        "shutdown" => Deed::Shutdown,
        "crash" => Deed::Crash { code },
        _ => return None,
    };
    Some((after, deed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_played_in_the_order_of_time() {
        let script: Script = "shutdown=1m, ready=1.5s crash=2m:3".parse().unwrap();
        let expected = [
            (Duration::from_millis(1500), Deed::Ready),
            (Duration::from_secs(60), Deed::Shutdown),
            (Duration::from_secs(120), Deed::Crash { code: 3 }),
        ];
        assert_eq!(script.deeds().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_empty_script_does_nothing() {
        assert_eq!("".parse::<Script>().unwrap().deeds().count(), 0);
    }

    #[test]
    fn a_bad_word_is_named() {
        for word in ["ready", "ready=soon", "dance=1s", "ready=1s:2", "crash=1s:x", "ready=-1s"] {
            let problem = format!("silent=1s {word}").parse::<Script>().unwrap_err();
            assert!(problem.to_string().contains(word), "{problem}");
        }
    }
}
