//! Durations as Go writes them: `90s`, `1m30s`, `1.5h`, `-5s`, `0`.

/// A span of time in seconds; below 0 it lies in the past.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span(f64);

impl Span {
    /// Returns the whole seconds, rounded towards 0.
    #[expect(clippy::cast_possible_truncation, reason = "beyond the largest number is the largest")]
    pub(crate) fn whole_seconds(self) -> i64 {
        self.0 as i64
    }
}

pub(crate) fn parse(text: &str) -> Result<Span, String> {
    let wrong = || format!("expected a duration such as 90s or 1m30s, found {text:?}");
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) if text.starts_with('-') => (-1.0, rest),
        Some(rest) => (1.0, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Ok(Span(0.0));
    }
    if rest.is_empty() {
        return Err(wrong());
    }
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
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(wrong()),
            };
        rest = &after[unit_len..];
    }
    Ok(Span(sign * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        for (text, seconds) in [
            ("90s", 90),
            ("1m30s", 90),
            ("1.5h", 5400),
            ("2500ms", 2),
            ("250ms", 0),
            ("0", 0),
            ("-0", 0),
            ("-5s", -5),
            ("+5s", 5),
        ] {
            assert_eq!(parse(text).map(Span::whole_seconds), Ok(seconds), "{text}");
        }
        for text in ["", "-", "5", "s", "5d", "1..5s", "--5s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
