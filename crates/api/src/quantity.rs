//! Kubernetes quantities: `500m`, `16Gi`, `1e3`, `0.5`.

use std::cmp::Ordering;
use std::fmt;

/// An exact amount, in billionths: the finest that Kubernetes keeps. It prints in its canonical form, in the style it was written in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    style: Style,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Style {
    /// `1500m`, `2k`.
    #[default]
    Decimal,
    /// `1Gi`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// Why a text is no quantity, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It has no number, or characters that no quantity has.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// No unit is written like this.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number has two points, or only points.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Reads a quantity as Kubernetes does: finer amounts than billionths are rounded away from zero, and amounts beyond what
    /// an int64 of whole units holds become that.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = unsigned.find(|c| !is_number(c)).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Number);
        }
        let (style, multiplier, exponent) = read_suffix(suffix)?;
        let nanos = amount(whole, fraction, multiplier, exponent + 9);
        let nanos = nanos.min(i128::from(i64::MAX) * NANO);
        Ok(Self { nanos: if text.starts_with('-') { -nanos } else { nanos }, style })
    }

    /// Reads a quantity; the error describes the format.
    pub fn parse_with_hint(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|_| {
            format!("`{text}` is not a quantity; write it like `500m`, `2`, `1.5`, `16Gi` or `1e3`")
        })
    }

    /// Returns the amount in whole units, rounded away from zero as Kubernetes' `Value()` does.
    pub fn value(self) -> i64 {
        saturate(self.in_units_of(NANO))
    }

    /// Returns the amount in thousandths, rounded away from zero as Kubernetes' `MilliValue()` does.
    pub fn milli_value(self) -> i64 {
        saturate(self.milli())
    }

    /// Returns the amount in thousandths, rounded away from zero, however large it is.
    pub fn milli(self) -> i128 {
        self.in_units_of(NANO / 1000)
    }

    /// Returns the amount as a floating-point number.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Whether the amount is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is a whole number.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// Whether thousandths cannot express the amount.
    pub fn is_finer_than_milli(self) -> bool {
        self.nanos % (NANO / 1000) != 0
    }

    fn in_units_of(self, unit: i128) -> i128 {
        let (whole, left) = (self.nanos / unit, self.nanos % unit);
        whole + if left == 0 { 0 } else { self.nanos.signum() }
    }
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

// `1024Mi` and `1Gi` are the same amount: the style does not count.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos / NANO;
        let is_small = whole > -1024 && whole < 1024;
        if self.style == Style::Binary && !is_small && self.is_whole() {
            let mut number = whole;
            let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter();
            let mut suffix = suffixes.next();
            while number % 1024 == 0 && suffix != Some(&"Ei") {
                number /= 1024;
                suffix = suffixes.next();
            }
            return write!(f, "{number}{}", suffix.unwrap_or(&""));
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        match (self.style, exponent) {
            (_, 0) => write!(f, "{number}"),
            (Style::Exponent, _) => write!(f, "{number}e{exponent}"),
            (Style::Decimal | Style::Binary, _) => {
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let index = usize::try_from((exponent + 9) / 3).unwrap_or_default();
                write!(f, "{number}{}", suffix.get(index).copied().unwrap_or_default())
            }
        }
    }
}

/// Returns the style of a suffix, its binary multiplier and its power of ten.
fn read_suffix(suffix: &str) -> Result<(Style, i128, i32), QuantityError> {
    let decimal = |exponent| Ok((Style::Decimal, 1, exponent));
    let binary = |bits: u32| Ok((Style::Binary, 1_i128 << bits, 0));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let is_known = suffix.chars().all(|c| "eEinumkKMGTP+-0123456789".contains(c));
            let exponent = suffix.strip_prefix(['e', 'E']).and_then(|e| e.parse::<i32>().ok());
            match exponent {
                Some(exponent) => Ok((Style::Exponent, 1, exponent.clamp(-400, 400))),
                None if is_known => Err(QuantityError::Suffix),
                None => Err(QuantityError::Format),
            }
        }
    }
}

/// Computes `whole.fraction * multiplier * 10^exponent`, rounded up, saturating.
fn amount(whole: &str, fraction: &str, multiplier: i128, exponent: i32) -> i128 {
    // Past 30 digits only the size matters: it saturates above, and rounds up below.
    let (mut value, mut kept, mut cut, mut inexact) = (0_i128, 0, 0_i32, false);
    for digit in whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0') {
        if kept < 30 {
            value = value * 10 + i128::from(digit - b'0');
            kept += 1;
        } else {
            cut = cut.saturating_add(1);
            inexact |= digit != b'0';
        }
    }
    if value == 0 {
        return 0;
    }
    let exponent = exponent.saturating_sub(i32::try_from(fraction.len()).unwrap_or(i32::MAX));
    let exponent = exponent.saturating_add(cut);
    let value = value.saturating_mul(multiplier);
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

    #[test]
    fn a_quantity_has_one_canonical_form() {
        for (given, canonical) in [
            ("0.1", "100m"),
            ("0.10", "100m"),
            ("1024Mi", "1Gi"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("1500m", "1500m"),
            ("2000m", "2"),
            ("0.5Gi", "512Mi"),
            ("1023", "1023"),
            ("100Ki", "100Ki"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1E", "1E"),
            ("+5", "5"),
            ("-1", "-1"),
            ("0.0000000001", "1n"),
            ("9223372036854775808", "9223372036854775807"),
            ("12345678", "12345678"),
        ] {
            assert_eq!(Quantity::parse(given).unwrap().to_string(), canonical, "{given}");
        }
    }

    #[test]
    fn a_text_that_is_no_quantity_is_refused_with_the_reason() {
        for (given, error) in [
            ("abc", QuantityError::Format),
            ("", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1.2.3", QuantityError::Number),
            ("1mm", QuantityError::Suffix),
        ] {
            assert_eq!(Quantity::parse(given), Err(error), "{given}");
        }
    }

    #[test]
    fn amounts_are_equal_however_they_are_written() {
        let parse = |text| Quantity::parse(text).unwrap();
        assert_eq!(parse("1024Mi"), parse("1Gi"));
        assert_eq!(parse("1e3"), parse("1k"));
        assert!(parse("1G") < parse("1Gi") && parse("-1500m") < parse("-1"));
        assert_eq!(Quantity::default(), parse("0"));
        let hint = Quantity::parse_with_hint("four").unwrap_err();
        assert!(hint.starts_with("`four` is not a quantity; write it like `500m`"), "{hint}");
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
