//! Is a number, a percentage or an amount in its range?

use api::quantity::Quantity;
use serde_json::Value;

use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::{given, text};

/// Refuses a number below zero.
pub(super) fn not_negative(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    if object[field].as_i64().is_some_and(|n| n < 0) {
        errors
            .push(path.child(field).invalid(&object[field], "must be greater than or equal to 0"));
    }
}

/// Refuses a number outside a range.
pub(super) fn in_range(
    object: &Value,
    field: &str,
    range: std::ops::RangeInclusive<i64>,
    path: &Path,
    errors: &mut Errors,
) {
    if object[field].as_i64().is_some_and(|n| !range.contains(&n)) {
        let detail = format!("must be between {} and {}, inclusive", range.start(), range.end());
        errors.push(path.child(field).invalid(&object[field], detail));
    }
}

/// Refuses a text that is none of the supported ones.
pub(super) fn one_of(
    object: &Value,
    field: &str,
    supported: &[&str],
    path: &Path,
    errors: &mut Errors,
) {
    let value = text(object, field);
    if given(object, field).is_some() && !supported.contains(&value) {
        errors.push(path.child(field).not_supported(value, supported));
    }
}

/// Refuses an absent or empty text.
pub(super) fn required(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    if given(object, field).is_none() {
        errors.push(path.child(field).required(""));
    }
}

/// Checks a number that is not negative, or a percentage.
pub(super) fn int_or_percent(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    match &object[field] {
        Value::String(percent) => {
            let faults = names::percent(percent);
            super::meta::faults(&path.child(field), percent, faults, errors);
        }
        Value::Number(_) => not_negative(object, field, path, errors),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Refuses a percentage over 100.
pub(super) fn not_over_100_percent(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    let percent = text(object, field).strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
    if percent.is_some_and(|p| p > 100) {
        errors.push(path.child(field).invalid(&object[field], "must not be greater than 100%"));
    }
}

/// Whether a number or percentage is zero.
pub(super) fn is_zero(value: &Value) -> bool {
    match value.as_str() {
        Some(percent) => percent.trim_end_matches('%').parse::<i64>() == Ok(0),
        None => value.as_i64() == Some(0) || value.is_null(),
    }
}

/// Reads an amount.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}
