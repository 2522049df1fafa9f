//! Go's durations, as Kubernetes and Nomad write them: `90s`, `5m`, `1h30m`, `0s`, `-1.5h`.

use jiff::SignedDuration;

/// The names of the units and their length in nanoseconds, longest name first where one is the start of another.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a duration as Go's `time.ParseDuration` does.
pub fn parse(text: &str) -> Result<SignedDuration, String> {
    let wrong = || format!("`{text}` is not a duration; write it like `90s`, `5m` or `1h30m`");
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
        None => return Err(wrong()),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let (term, after) = take_term(rest).ok_or_else(wrong)?;
        nanos = nanos.checked_add(term).filter(|n| *n <= i128::from(i64::MAX)).ok_or_else(wrong)?;
        rest = after;
    }
    let nanos = if negative { -nanos } else { nanos };
    i64::try_from(nanos).map(SignedDuration::from_nanos).map_err(|_| wrong())
}

/// Parses one component such as `1.5h`, and returns the remaining text too.
fn take_term(text: &str) -> Option<(i128, &str)> {
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let whole_len = digits(text);
    let (whole, mut rest) = text.split_at(whole_len);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        let len = digits(after);
        (fraction, rest) = after.split_at(len);
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, scale) = UNITS.iter().find(|(unit, _)| {
        rest.strip_prefix(unit).is_some_and(|after| {
            after.starts_with(|c: char| c.is_ascii_digit() || c == '.') || after.is_empty()
        })
    })?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<i128>().ok()? * scale / 10_i128.pow(u32::try_from(fraction.len()).ok()?)
    };
    Some((whole.checked_mul(*scale)?.checked_add(part)?, &rest[unit.len()..]))
}

/// Writes a duration as Go does: `1h30m0s`, `1.5s`, `0s`.
pub fn format(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos < 1_000_000_000 {
        let (scale, unit) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{unit}", decimal(nanos, scale));
    }
    let (hours, minutes, left) =
        (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60, nanos % 60_000_000_000);
    let seconds = decimal(left, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn decimal(value: u128, scale: u128) -> String {
    let width = scale.ilog10() as usize;
    let fraction = format!("{:0width$}", value % scale);
    let fraction = fraction.trim_end_matches('0');
    if scale == 1 || fraction.is_empty() {
        (value / scale).to_string()
    } else {
        format!("{}.{fraction}", value / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_and_print_as_in_go() {
        for (text, nanos, printed) in [
            ("90s", 90_000_000_000, "1m30s"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("0", 0, "0s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
            (".5s", 500_000_000, "500ms"),
            ("1.s", 1_000_000_000, "1s"),
            ("1ms2us3ns", 1_002_003, "1.002003ms"),
            ("+5m", 300_000_000_000, "5m0s"),
        ] {
            let duration = parse(text).unwrap();
            assert_eq!(
                (duration.as_nanos(), format(duration).as_str()),
                (nanos, printed),
                "{text}"
            );
        }
        for text in ["", "5", "s", "1d", "-", ".s", "1h 2m", "9999999999h", "1hh", "１s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_durations_parse_to_the_same_value(nanos: i64) {
            prop_assume!(nanos != i64::MIN);
            let duration = SignedDuration::from_nanos(nanos);
            prop_assert_eq!(parse(&format(duration)).unwrap(), duration);
        }
    }
}
