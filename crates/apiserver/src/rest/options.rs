//! Validates the options of a request.

use serde_json::json;

use super::Call;
use crate::status::{ApiResult, Status};
use apimachinery::quote::quote;

/// Checks the options that every write has.
pub(super) fn of_write(call: &Call) -> ApiResult<()> {
    let mut wrong = Vec::new();
    let dry_run: Vec<&str> = call.query.all("dryRun").collect();
    if dry_run.iter().any(|value| *value != "All") {
        let given: Vec<String> = dry_run.iter().map(|value| quote(value)).collect();
        wrong.push((
            "dryRun",
            format!("Unsupported value: [{}]: supported values: \"All\"", given.join(",")),
        ));
    }
    if let Some(manager) = call.query.get("fieldManager") {
        if manager.len() > 128 {
            wrong.push(("fieldManager", "Too long: may not be more than 128 bytes".to_owned()));
        }
        if let Some((at, _)) = manager.char_indices().find(|(_, c)| c.is_control()) {
            let why = format!(
                "Invalid value: {}: should only contain printable characters (index {at})",
                quote(manager)
            );
            wrong.push(("fieldManager", why));
        }
    }
    if let Some(other) =
        call.query.get("fieldValidation").filter(|v| !["Ignore", "Strict", "Warn"].contains(v))
    {
        let known = r#"supported values: "", "Ignore", "Strict", "Warn""#;
        wrong.push(("fieldValidation", format!("Unsupported value: {}: {known}", quote(other))));
    }
    invalid(call.options_kind(), &wrong)
}

/// Refuses options, naming each that is wrong.
pub(super) fn invalid(kind: &str, wrong: &[(&str, String)]) -> ApiResult<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = wrong.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    let problems = if all.len() == 1 { all[0].clone() } else { format!("[{}]", all.join(", ")) };
    let mut status =
        Status::new(422, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {problems}"));
    status.details = Some(crate::status::details("", "meta.k8s.io", kind));
    for (path, why) in wrong {
        let reason = match why.split(':').next() {
            Some("Forbidden") => "FieldValueForbidden",
            Some("Required value") => "FieldValueRequired",
            Some("Too long") => "FieldValueTooLong",
            Some("Invalid value") => "FieldValueInvalid",
            _ => "FieldValueNotSupported",
        };
        status = status.cause(json!({"reason": reason, "message": why, "field": path}));
    }
    Err(status)
}
