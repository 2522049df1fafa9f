//! Log set-up.
//!
//! On standard error, at the level of `PLIMSOLL_LOG`: as lines for people, or as one JSON object per line. Colours are for
//! terminals, and can be turned off with `NO_COLOR`.

use std::error::Error;
use std::ffi::OsStr;
use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging; `usual` is the filter where `PLIMSOLL_LOG` is not set. Panics are logged too.
pub fn init(usual: &str, format: Format) {
    let filter = EnvFilter::try_from_env("PLIMSOLL_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let colours =
        has_colours(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => log.with_ansi(colours).init(),
        Format::Json => log.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        tracing::error!(
            at,
            thread,
            cause = crate::supervise::panic_text(panic.payload()),
            "a panic"
        );
    }));
}

/// Returns whether to use colours. An empty `NO_COLOR` has no effect.
fn has_colours(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Returns an error and its causes as one sentence that contains each of them once. Some errors have the text of their cause in their own.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        append(&mut text, &cause.to_string());
        next = cause.source();
    }
    text
}

/// Appends the text of a cause, without what the sentence contains already.
fn append(text: &mut String, cause: &str) {
    if cause.is_empty() || text.contains(cause) {
        return;
    }
    // The parts that it begins with may be those that the text ends with.
    let ends = cause.match_indices(": ").map(|(at, _)| at);
    let is_said = |head: &str| text == head || text.ends_with(&format!(": {head}"));
    let overlap = ends.filter(|end| is_said(&cause[..*end])).last();
    match overlap {
        Some(end) => text.push_str(&cause[end..]),
        None => {
            text.push_str(": ");
            text.push_str(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failure {
        text: &'static str,
        source: Option<Box<Failure>>,
    }

    fn failure(texts: &[&'static str]) -> Failure {
        let source = (texts.len() > 1).then(|| Box::new(failure(&texts[1..])));
        Failure { text: texts[0], source }
    }

    #[test]
    fn a_chain_says_each_cause_once() {
        for (texts, expected) in [
            (
                &["could not list pods", "connection refused"][..],
                "could not list pods: connection refused",
            ),
            (&["HyperError: closed", "closed", "closed"], "HyperError: closed"),
            (
                &["could not connect", "connect: refused", "refused"],
                "could not connect: connect: refused",
            ),
            (&["no answer: timed out", "timed out: 5 s"], "no answer: timed out: 5 s"),
        ] {
            assert_eq!(chain(&failure(texts)), expected);
        }
    }

    #[test]
    fn colours_are_used_on_terminals_unless_disabled() {
        let no_color = |text: &'static str| Some(OsStr::new(text));
        assert!(has_colours(true, None) && has_colours(true, no_color("")));
        assert!(!has_colours(true, no_color("1")));
        assert!(!has_colours(false, None));
    }
}
