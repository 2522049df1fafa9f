//! How is a quantity such as `0.5` or `1024Mi` written in its one canonical form?
//!
//! A quantity is kept in billionths, which is as fine as Kubernetes' own are; anything finer is rounded up.

use std::fmt;

const NANOS: i128 = 1_000_000_000;
const LARGEST: i128 = i64::MAX as i128 * NANOS;

/// An amount, and the way it likes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `1500m`, `2k`.
    Decimal,
    /// `1Gi`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// Why a text is no quantity; worded as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("unable to parse numeric part of quantity")]
    Number,
}

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end =
            unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        if digits.is_empty() {
            return Err(Error::Format);
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(Error::Number);
        }
        let (style, base, exponent) = read_suffix(suffix)?;
        let nanos = scale(whole, fraction, base, exponent).min(LARGEST);
        Ok(Self { nanos: if text.starts_with('-') { -nanos } else { nanos }, style })
    }

    /// The amount in thousandths, rounded up.
    pub fn milli(self) -> i128 {
        self.nanos.div_euclid(1_000_000) + i128::from(self.nanos.rem_euclid(1_000_000) != 0)
    }

    /// Whether thousandths cannot express it.
    pub fn is_finer_than_milli(self) -> bool {
        self.nanos % 1_000_000 != 0
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

fn read_suffix(suffix: &str) -> Result<(Style, i128, i32), Error> {
    let decimal = |exponent| Ok((Style::Decimal, 10, exponent));
    let binary = |exponent| Ok((Style::Binary, 2, exponent));
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
            let well_formed = suffix.chars().all(|c| "eEinumkKMGTP+-0123456789".contains(c));
            let exponent = suffix.strip_prefix(['e', 'E']).and_then(|e| e.parse::<i32>().ok());
            match exponent {
                Some(exponent) => Ok((Style::Exponent, 10, exponent)),
                None if well_formed => Err(Error::Suffix),
                None => Err(Error::Format),
            }
        }
    }
}

/// Works out the billionths of a number, rounding away from zero what is finer.
fn scale(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    let mut number: i128 = 0;
    let mut decimals: i32 = 0;
    for (place, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        if number > i128::MAX / 10_000 {
            // More digits than any allowed amount has: before the point it is too large, behind it too fine.
            if place < whole.len() {
                return LARGEST;
            }
            break;
        }
        number = number * 10 + i128::from(digit - b'0');
        decimals += i32::from(place >= whole.len());
    }
    let (tens, twos) = if base == 10 { (exponent, 0) } else { (0, exponent) };
    for _ in 0..twos {
        number = number.saturating_mul(2);
    }
    let power = tens - decimals + 9;
    for _ in 0..power.clamp(0, 60) {
        number = number.saturating_mul(10);
    }
    for _ in 0..(-power).clamp(0, 60) {
        number = number / 10 + i128::from(number % 10 != 0);
    }
    number
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos / NANOS;
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_no_quantity_is_told_why() {
        for (given, error) in [
            ("abc", Error::Format),
            ("", Error::Format),
            ("1x", Error::Format),
            ("1.2.3", Error::Number),
            ("1mm", Error::Suffix),
        ] {
            assert_eq!(Quantity::parse(given), Err(error), "{given}");
        }
    }
}
