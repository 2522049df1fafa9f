//! The table of flags: `flags.txt`, one line for each.

use std::sync::LazyLock;

const TEXT: &str = include_str!("flags.txt");

/// All flags in the order of the table.
pub(crate) static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(read);

/// One flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    /// What it does, or why it has no effect.
    pub(crate) note: &'static str,
    /// The title of its part of the table.
    pub(crate) section: &'static str,
}

/// The values that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
    Duration,
    Text,
    /// Repeated.
    List,
    /// Repeated, or separated by commas.
    Names,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It acts as in Cluster Autoscaler.
    Acts,
    /// It is accepted without effect.
    None,
    /// It sets up klog, and is accepted without effect.
    Log,
    /// Earlier releases had it; it is accepted without effect.
    Retired,
}

impl Kind {
    const NAMES: [(&'static str, Self); 7] = [
        ("bool", Self::Bool),
        ("int", Self::Int),
        ("float", Self::Float),
        ("duration", Self::Duration),
        ("text", Self::Text),
        ("list", Self::List),
        ("names", Self::Names),
    ];

    /// Checks a value; the error says what was expected.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        let is_valid = match self {
            Self::Bool => parse_bool(value).is_some(),
            Self::Int => parse_int(value).is_some(),
            Self::Float => parse_float(value).is_some(),
            Self::Duration => return decide::duration::parse(value).map(drop),
            Self::Text | Self::List | Self::Names => true,
        };
        let expected = match self {
            Self::Bool => "expected true or false",
            Self::Int => "expected a whole number",
            Self::Float => "expected a number",
            Self::Duration | Self::Text | Self::List | Self::Names => "",
        };
        if is_valid { Ok(()) } else { Err(expected.to_owned()) }
    }

    /// Returns the name of its values for people.
    pub(crate) fn value_name(self) -> &'static str {
        match self {
            Self::Bool => "",
            Self::Int => "N",
            Self::Float => "NUMBER",
            Self::Duration => "DURATION",
            Self::Text => "TEXT",
            Self::List => "TEXT…",
            Self::Names => "NAME,…",
        }
    }
}

/// Parses a boolean as Go does.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

pub(super) fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

pub(super) fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Finds a flag by its name, in which underscores are dashes.
pub(crate) fn find(name: &str) -> Option<&'static Flag> {
    let name = name.replace('_', "-");
    FLAGS.iter().find(|flag| flag.name == name)
}

/// Returns the titles of the table's parts, in order.
pub(crate) fn section_titles() -> Vec<&'static str> {
    let mut titles: Vec<&'static str> = FLAGS.iter().map(|flag| flag.section).collect();
    titles.dedup();
    titles
}

fn read() -> Vec<Flag> {
    let mut section = "";
    let mut flags = Vec::new();
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("== ") {
            Some(title) => section = title,
            None => flags.push(row(line, section).expect("a test reads the whole table")),
        }
    }
    flags
}

fn row(line: &'static str, section: &'static str) -> Option<Flag> {
    let columns: Vec<&'static str> = line.splitn(5, '|').map(str::trim).collect();
    let [name, kind, default, effect, note] = columns[..] else { return None };
    let (_, kind) = Kind::NAMES.into_iter().find(|(known, _)| *known == kind)?;
    let effect = match effect {
        "acts" => Effect::Acts,
        "none" => Effect::None,
        "log" => Effect::Log,
        "retired" => Effect::Retired,
        _ => return None,
    };
    Some(Flag { name, kind, default, effect, note, section })
}
