//! Durations as Go writes them: `90s`, `1m30s`, `1.5h`.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as 90s or 1m30s, found {text:?}");
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..unit_at].parse().map_err(|_| wrong())?;
        let after = &rest[unit_at..];
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        seconds += number
            * match &after[..unit_len] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(wrong()),
            };
        rest = &after[unit_len..];
    }
    let is_empty = text.is_empty();
    Duration::try_from_secs_f64(seconds).ok().filter(|_| !is_empty).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        for (text, seconds) in [("90s", 90.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("250ms", 0.25)] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5d", "1..5s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
