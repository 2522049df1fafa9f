//! Numbers as policy files have them: whole ones are exact, and arithmetic never wraps.

use std::cmp::Ordering;
use std::fmt;

/// A number of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(i128),
    /// Never infinite, and always a number.
    Real(f64),
}

/// The largest magnitude below which every whole number has a `f64` of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Reads text as files do where a number is needed: `7`, `20.0`, `1e1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return Some(Self::Whole(whole));
        }
        // Rust reads these as numbers, too.
        let is_word = text.contains(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E'));
        if is_word { None } else { Self::real(text.parse().ok()?) }
    }

    /// Takes a finite number.
    pub(super) fn real(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self::Real(number))
    }

    /// Returns it as a whole number of 64 bits, if it is exactly one.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(whole) => i64::try_from(whole).ok(),
            Self::Real(real) if real.fract() == 0.0 && real.abs() < EXACT => Some(real as i64),
            Self::Real(_) => None,
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    /// Computes exactly where both are whole and the result has room, and otherwise as well as `f64` can.
    fn compute(
        self,
        other: Self,
        exact: fn(i128, i128) -> Option<i128>,
        near: fn(f64, f64) -> f64,
    ) -> Result<Self, String> {
        if let (Self::Whole(a), Self::Whole(b)) = (self, other)
            && let Some(whole) = exact(a, b)
        {
            return Ok(Self::Whole(whole));
        }
        let result = Self::real(near(self.as_f64(), other.as_f64()));
        result.ok_or_else(|| "the result is too large".to_owned())
    }

    pub(super) fn plus(self, other: Self) -> Result<Self, String> {
        self.compute(other, i128::checked_add, |a, b| a + b)
    }

    pub(super) fn minus(self, other: Self) -> Result<Self, String> {
        self.compute(other, i128::checked_sub, |a, b| a - b)
    }

    pub(super) fn times(self, other: Self) -> Result<Self, String> {
        self.compute(other, i128::checked_mul, |a, b| a * b)
    }

    pub(super) fn divided_by(self, other: Self) -> Result<Self, String> {
        if other.as_f64() == 0.0 {
            return Err(format!("{self} cannot be divided by zero"));
        }
        let exact =
            |a: i128, b: i128| if a.checked_rem(b) == Some(0) { a.checked_div(b) } else { None };
        self.compute(other, exact, |a, b| a / b)
    }

    pub(super) fn modulo(self, other: Self) -> Result<Self, String> {
        if other.as_f64() == 0.0 {
            return Err(format!("{self} cannot be divided by zero"));
        }
        self.compute(other, i128::checked_rem, |a, b| a % b)
    }

    pub(super) fn negated(self) -> Result<Self, String> {
        Self::Whole(0).minus(self)
    }

    /// Compares two numbers.
    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => whole.fmt(f),
            Self::Real(real) => real.fmt(f),
        }
    }
}

impl From<&hcl::Number> for Number {
    fn from(number: &hcl::Number) -> Self {
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), ..) => Self::Whole(whole.into()),
            (_, Some(whole), _) => Self::Whole(whole.into()),
            (.., real) => Self::Real(real.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_neither_wraps_nor_panics() {
        let whole = Number::Whole;
        let large = whole(i64::MAX.into());
        assert_eq!(
            large.times(large).unwrap().to_string(),
            "85070591730234615847396907784232501249"
        );
        assert_eq!(large.times(large).unwrap().whole(), None);
        assert_eq!(whole(3).minus(whole(5)).unwrap().whole(), Some(-2));
        assert_eq!(whole(7).divided_by(whole(2)).unwrap(), Number::Real(3.5));
        assert_eq!(whole(-7).modulo(whole(4)).unwrap().whole(), Some(-3));
        assert!(whole(4).modulo(whole(0)).is_err());
        assert!(whole(4).divided_by(Number::Real(0.0)).is_err());
        assert!(Number::Real(1e308).times(Number::Real(1e308)).is_err());
        let most = whole(i128::MIN);
        assert!(most.negated().unwrap().compare(large) == Ordering::Greater);
        assert_eq!(most.divided_by(whole(-1)).unwrap().whole(), None);
        assert!(most.modulo(whole(-1)).is_ok());
    }

    #[test]
    fn text_is_read_as_a_number_where_it_is_one() {
        for (text, whole) in [("7", Some(7)), ("20.0", Some(20)), ("1e1", Some(10)), ("2.5", None)]
        {
            assert_eq!(Number::parse(text).unwrap().whole(), whole, "{text}");
        }
        assert_eq!(Number::parse("9007199254740993.0").unwrap().whole(), None);
        for text in ["", "x", "Inf", "nan", "1e999", "0x10", "1_000"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }
}
