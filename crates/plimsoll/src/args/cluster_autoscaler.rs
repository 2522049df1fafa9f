//! Cluster Autoscaler's flags: what was typed, in the syntax of Go's programs.

mod help;
mod table;

use std::collections::BTreeMap;

use jiff::SignedDuration;

pub(crate) use help::help;
pub(crate) use table::Effect;
#[cfg(test)]
pub(crate) use table::FLAGS;
use table::{Flag, Kind};

/// The flags of a command line, each checked against its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// The values that were given, in the order of the command line.
    given: BTreeMap<&'static str, Vec<String>>,
    /// Arguments that are not flags; they have no effect.
    pub(crate) ignored: Vec<String>,
}

/// Why there are no flags to run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlagError {
    /// Help was asked for.
    Help,
    /// The command line is wrong.
    Usage(String),
}

impl Flags {
    /// Parses a command line: `--x v`, `--x=v`, `-x=v`, `-v4`, `--x` for a boolean. An underscore in a name is a dash.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                flags.ignored.extend(args.by_ref());
                break;
            }
            let Some(word) = arg.strip_prefix('-').filter(|word| !word.is_empty()) else {
                flags.ignored.push(arg);
                continue;
            };
            let word = word.strip_prefix('-').unwrap_or(word);
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word, None),
            };
            if matches!(name, "help" | "h") {
                return Err(FlagError::Help);
            }
            let (flag, value) = match (table::find(name), verbosity(name)) {
                (Some(flag), _) => (flag, value),
                (None, Some((flag, level))) => (flag, Some(level)),
                (None, None) => return Err(usage(format!("unknown flag: {}", dashed(&arg)))),
            };
            let value = match value {
                Some(value) => value,
                None if flag.kind == Kind::Bool => "true".to_owned(),
                None => args
                    .next()
                    .ok_or_else(|| usage(format!("flag needs an argument: {}", dashed(&arg))))?,
            };
            flags.add(flag, &value)?;
        }
        Ok(flags)
    }

    fn add(&mut self, flag: &'static Flag, value: &str) -> Result<(), FlagError> {
        if let Err(cause) = flag.kind.check(value) {
            let name = flag.name;
            return Err(usage(format!(
                "invalid argument {value:?} for \"--{name}\" flag: {cause}"
            )));
        }
        let values = self.given.entry(flag.name).or_default();
        match flag.kind {
            Kind::List => values.push(value.to_owned()),
            Kind::Names => values.extend(value.split(',').map(|name| name.trim().to_owned())),
            Kind::Bool | Kind::Int | Kind::Float | Kind::Duration | Kind::Text => {
                *values = vec![value.to_owned()];
            }
        }
        Ok(())
    }

    /// Returns the flags that were given, in the order of their names.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static Flag> {
        self.given.keys().filter_map(|name| table::find(name))
    }

    /// Returns whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    pub(crate) fn bool(&self, name: &str) -> bool {
        self.read(name, table::parse_bool)
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        self.read(name, table::parse_int)
    }

    /// Returns a whole number in the range of the settings, which is narrower than that of the flags.
    pub(crate) fn int32(&self, name: &str) -> i32 {
        let value = self.int(name);
        i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
    }

    pub(crate) fn float(&self, name: &str) -> f64 {
        self.read(name, table::parse_float)
    }

    pub(crate) fn duration(&self, name: &str) -> SignedDuration {
        self.read(name, |text| decide::duration::parse(text).ok())
    }

    /// Returns a text; the last one counts.
    pub(crate) fn text(&self, name: &str) -> &str {
        let given = self.given.get(name).and_then(|values| values.last());
        given.map_or(flag(name).default, String::as_str)
    }

    /// Returns all values of a repeated flag.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        match self.given.get(name) {
            Some(values) => values.iter().map(String::as_str).collect(),
            None => Some(flag(name).default).into_iter().filter(|text| !text.is_empty()).collect(),
        }
    }

    fn read<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> T {
        parse(self.text(name)).expect("values are checked when they are parsed, defaults by a test")
    }
}

fn flag(name: &str) -> &'static Flag {
    table::find(name).expect("the settings read only flags of the table")
}

fn usage(message: String) -> FlagError {
    FlagError::Usage(message)
}

/// Returns klog's `-v4` as a flag with its value.
fn verbosity(name: &str) -> Option<(&'static Flag, String)> {
    let level = name.strip_prefix('v').filter(|level| level.bytes().all(|b| b.is_ascii_digit()))?;
    Some((table::find("v")?, level.to_owned()))
}

/// Returns an argument without its value.
fn dashed(arg: &str) -> &str {
    arg.split_once('=').map_or(arg, |(name, _)| name)
}

#[cfg(test)]
mod tests;
