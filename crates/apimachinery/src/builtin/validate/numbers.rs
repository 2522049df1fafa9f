//! Validates numbers, percentages and quantities.

use api::quantity::Quantity;
use serde_json::Value;

use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::{given, text};

/// Rejects a negative number.
pub(super) fn not_negative(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    if object[field].as_i64().is_some_and(|n| n < 0) {
        errors
            .push(path.child(field).invalid(&object[field], "must be greater than or equal to 0"));
    }
}

/// Rejects a number outside a range.
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

/// Rejects a string that is not one of the supported values.
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

/// Rejects an absent or empty string.
pub(super) fn required(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    if given(object, field).is_none() {
        errors.push(path.child(field).required(""));
    }
}

/// Validates a non-negative number or a percentage.
pub(super) fn int_or_percent(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    match &object[field] {
        Value::String(percent) => {
            let violations = names::percent(percent);
            super::meta::violations(&path.child(field), percent, violations, errors);
        }
        Value::Number(_) => not_negative(object, field, path, errors),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Rejects a percentage over 100.
pub(super) fn not_over_100_percent(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    let percent = text(object, field).strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
    if percent.is_some_and(|p| p > 100) {
        errors.push(path.child(field).invalid(&object[field], "must not be greater than 100%"));
    }
}

/// Returns whether a number or percentage is zero.
pub(super) fn is_zero(value: &Value) -> bool {
    match value.as_str() {
        Some(percent) => percent.trim_end_matches('%').parse::<i64>() == Ok(0),
        None => value.as_i64() == Some(0) || value.is_null(),
    }
}

/// Parses a quantity.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}
