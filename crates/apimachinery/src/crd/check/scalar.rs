//! Validates strings and numbers against a schema.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, Mutex};

use regex::Regex;
use serde_json::{Number, Value};

use super::{shown, unplaced};
use crate::builtin::field::FieldError;
use crate::crd::location::Location;
use crate::schema::{Structural, times};

/// Validates a string.
pub(super) fn text(
    schema: &Structural,
    text: &str,
    path: &Location<'_>,
    errors: &mut Vec<FieldError>,
) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        errors.push(path.path().too_long(usize::try_from(most).unwrap_or_default()));
    } else if let Some(least) = schema.min_length.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        errors.push(path.path().invalid_text(text, detail));
    } else if !schema.pattern.is_empty() && !matches(&schema.pattern, text) {
        let detail = format!("{path} in body should match '{}'", schema.pattern);
        errors.push(path.path().invalid_text(text, detail));
    }
    if !schema.format.is_empty() && !has_format(&schema.format, text) {
        let detail = format!("{path} in body must be of type {}: {text:?}", schema.format);
        errors.push(path.path().wrong_type(&Value::from(text), detail));
    }
}

/// Matches a pattern. Patterns are few and used for every object, so compiled ones are cached.
fn matches(pattern: &str, text: &str) -> bool {
    static KNOWN: LazyLock<Mutex<BTreeMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    const MOST: usize = 1000;
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if known.len() > MOST {
        known.clear();
    }
    let found = known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok());
    found.as_ref().is_none_or(|p| p.is_match(text))
}

fn has_format(format: &str, text: &str) -> bool {
    let is_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match format {
        "date-time" | "datetime" => times::canonical(text, false).is_ok(),
        "date" => {
            let parts: Vec<&str> = text.split('-').collect();
            parts.len() == 3
                && parts.iter().all(|p| is_digits(p))
                && text.parse::<jiff::civil::Date>().is_ok()
        }
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        "uri" => text.contains(':') || text.starts_with('/'),
        "email" => text.contains('@'),
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        _ => true,
    }
}

/// Validates a number.
pub(super) fn number(
    schema: &Structural,
    number: &Number,
    path: &Location<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(value) = number.as_f64() else { return };
    let given = Value::Number(number.clone());
    if let Some(step) = &schema.multiple_of
        && step.as_f64().is_some_and(|s| (value / s).fract() != 0.0)
    {
        let detail = format!("{path} in body should be a multiple of {}", shown(step));
        errors.push(path.path().invalid(&given, detail));
    }
    let (least, most) = schema.bounds();
    if let (Some((bound, exclusive)), Some(declared)) = (most, &schema.maximum)
        && (value > bound || (exclusive && value >= bound))
    {
        let than = if exclusive { "less than" } else { "less than or equal to" };
        errors.push(
            path.path()
                .invalid(&given, format!("{path} in body should be {than} {}", shown(declared))),
        );
    }
    if let (Some((bound, exclusive)), Some(declared)) = (least, &schema.minimum)
        && (value < bound || (exclusive && value <= bound))
    {
        let than = if exclusive { "greater than" } else { "greater than or equal to" };
        errors.push(
            path.path()
                .invalid(&given, format!("{path} in body should be {than} {}", shown(declared))),
        );
    }
    let fits = match (schema.kind.as_str(), schema.format.as_str()) {
        ("integer", "int32") => {
            number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) || number.is_f64()
        }
        _ => true,
    };
    if !fits {
        let format = &schema.format;
        let kind = &schema.kind;
        errors.push(unplaced(format!(
            "Checked value must be of type {kind} with format {format} in {path}"
        )));
    }
}
