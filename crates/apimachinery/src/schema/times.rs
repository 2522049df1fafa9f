//! Parses and formats times.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimeParser;

use crate::quote::quote;

/// Normalizes a time with any offset to Kubernetes' form: UTC, whole seconds or, for `micros`, six decimals.
pub fn canonical(text: &str, micros: bool) -> Result<String, String> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let wrong = |at: &str, part: &str| {
        let layout =
            if micros { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        let [text, layout, at, part] = [text, layout, at, part].map(quote);
        format!("parsing time {text} as {layout}: cannot parse {at} as {part}")
    };
    has_layout(text).map_err(|(at, part)| wrong(at, part))?;
    let moment: Timestamp = PARSER.parse_timestamp(text).map_err(|_| {
        // Each part has its digits, so one of them is out of range.
        format!("parsing time {}: day out of range", quote(text))
    })?;
    Ok(write(moment, micros))
}

/// Formats a time.
pub fn write(moment: Timestamp, micros: bool) -> String {
    let format = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    moment.strftime(format).to_string()
}

/// Finds where a text deviates from the layout of a time: the rest from there, and the part that was expected.
fn has_layout(text: &str) -> Result<(), (&str, &'static str)> {
    let digits = |from: usize, count: usize, part: &'static str| {
        let rest = text.get(from..).unwrap_or_default();
        let good = rest.len() >= count && rest.bytes().take(count).all(|b| b.is_ascii_digit());
        if good { Ok(()) } else { Err((rest, part)) }
    };
    let mark = |at: usize, mark: &'static str| {
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with(mark) { Ok(()) } else { Err((rest, mark)) }
    };
    digits(0, 4, "2006")?;
    mark(4, "-")?;
    digits(5, 2, "01")?;
    mark(7, "-")?;
    digits(8, 2, "02")?;
    mark(10, "T")?;
    digits(11, 2, "15")?;
    mark(13, ":")?;
    digits(14, 2, "04")?;
    mark(16, ":")?;
    digits(17, 2, "05")?;
    let rest = text.get(19..).unwrap_or_default();
    let zone =
        rest.strip_prefix('.').map_or(rest, |f| f.trim_start_matches(|c: char| c.is_ascii_digit()));
    let is_zone = zone == "Z" || (zone.len() == 6 && zone.starts_with(['+', '-']));
    if is_zone { Ok(()) } else { Err((zone, "Z07:00")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_stored_in_utc() {
        assert_eq!(canonical("2020-01-02T03:04:05+02:00", false).unwrap(), "2020-01-02T01:04:05Z");
        assert_eq!(
            canonical("2020-01-02T03:04:05.5Z", true).unwrap(),
            "2020-01-02T03:04:05.500000Z"
        );
        assert_eq!(canonical("2020-01-02T03:04:05.5Z", false).unwrap(), "2020-01-02T03:04:05Z");
    }

    #[test]
    fn errors_name_the_unexpected_part() {
        assert_eq!(
            canonical("x", false).unwrap_err(),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
        );
        assert!(canonical("2020-13-45T00:00:00Z", false).is_err());
    }
}
