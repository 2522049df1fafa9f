//! Kubernetes quantities: `500m`, `16Gi`, `1e3`, `0.5`.

/// An exact amount, in billionths: the finest that Kubernetes keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity as Kubernetes does; finer amounts than billionths are rounded away from zero.
    pub fn parse(text: &str) -> Result<Self, String> {
        read(text).map(|nanos| Self { nanos }).ok_or_else(|| {
            format!("`{text}` is not a quantity; write it like `500m`, `2`, `1.5`, `16Gi` or `1e3`")
        })
    }

    /// Gives the amount in whole units, rounded up (away from zero) as Kubernetes' `Value()` does.
    pub fn value(self) -> i64 {
        self.scaled(NANO)
    }

    /// Gives the amount in thousandths, rounded up (away from zero) as Kubernetes' `MilliValue()` does.
    pub fn milli_value(self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// Gives the amount as a floating-point number.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Tells whether the amount is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    fn scaled(self, unit: i128) -> i64 {
        let (whole, left) = (self.nanos / unit, self.nanos % unit);
        let rounded = whole + if left == 0 { 0 } else { self.nanos.signum() };
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }
}

/// Reads the text as billionths, saturating where Kubernetes does: beyond what an int64 of whole units holds.
fn read(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (multiplier, exponent) = scale(suffix)?;
    let nanos = amount(whole, fraction, multiplier, exponent + 9);
    let nanos = nanos.min(i128::from(i64::MAX) * NANO);
    Some(if negative { -nanos } else { nanos })
}

/// Gives a suffix as a binary multiplier and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?.clamp(-400, 400)),
    })
}

/// Computes `whole.fraction * multiplier * 10^exponent`, rounded up, saturating.
fn amount(whole: &str, fraction: &str, multiplier: i128, exponent: i32) -> i128 {
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let exponent = exponent - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    if digits.is_empty() {
        return 0;
    }
    // Past 30 digits only the size matters: it saturates above, and rounds up below.
    let cut = digits.len().saturating_sub(30);
    let (kept, dropped) = digits.split_at(digits.len() - cut);
    let exponent = exponent.saturating_add(i32::try_from(cut).unwrap_or(i32::MAX));
    let inexact = dropped.bytes().any(|b| b != b'0');
    let value = kept.parse::<i128>().unwrap_or(i128::MAX).saturating_mul(multiplier);
    let power = |e: u32| 10_i128.checked_pow(e);
    match u32::try_from(exponent) {
        Ok(up) => power(up)
            .map_or(i128::MAX, |p| value.saturating_mul(p))
            .saturating_add(i128::from(inexact)),
        Err(_) => match power(exponent.unsigned_abs()) {
            None => 1,
            Some(p) => value / p + i128::from(value % p != 0 || inexact),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_read_as_in_kubernetes() {
        for (text, value, milli) in [
            ("0", 0, 0),
            ("500m", 1, 500),
            ("1.5", 2, 1500),
            ("16Gi", 16 << 30, (16 << 30) * 1000),
            ("1e3", 1000, 1_000_000),
            ("1E3", 1000, 1_000_000),
            ("2E", 2_000_000_000_000_000_000, i64::MAX),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("+1", 1, 1000),
            ("-1500m", -2, -1500),
            ("1n", 1, 1),
            ("0.0000000001", 1, 1),
            ("100E", i64::MAX, i64::MAX),
            ("1e400", i64::MAX, i64::MAX),
            ("0.5Ki", 512, 512_000),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
        }
        for text in ["", "m", "1.2.3", "1 ", "1kb", "--1", "Gi", "1e", ".", "0x1", "1KI"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_themselves(n: i64) {
            prop_assume!(n != i64::MIN);
            prop_assert_eq!(Quantity::parse(&n.to_string()).unwrap().value(), n);
        }

        #[test]
        fn nothing_makes_it_panic(text in "[-+]?[0-9]{0,40}(\\.[0-9]{0,40})?(e-?[0-9]{0,12}|[a-zA-Z]{0,2})") {
            let _ = Quantity::parse(&text);
        }
    }
}
