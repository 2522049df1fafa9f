//! Decodes scalars.

use api::quantity::{Quantity, QuantityError};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Number, Value};

use super::Position;
use crate::schema::{Shape, ValueType, times};

impl Position<'_, '_> {
    pub(super) fn boolean(self, v: bool) -> Value {
        match self.shape.map(Shape::value_type) {
            None | Some(ValueType::Any | ValueType::Boolean) => {}
            Some(ValueType::Quantity) => self.quantity_error(QuantityError::Format),
            Some(ValueType::IntOrString) => self.wrong_type("bool", "int32"),
            Some(
                ValueType::String
                | ValueType::Integer
                | ValueType::Number
                | ValueType::Object
                | ValueType::List,
            ) => self.wrong_type("bool", &self.scalar_type()),
        }
        Value::Bool(v)
    }

    pub(super) fn number(self, v: Number) -> Value {
        match self.shape.map(Shape::value_type) {
            None | Some(ValueType::Any) => {}
            Some(ValueType::Number) => {
                return v.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number);
            }
            Some(ValueType::Integer) => {
                self.check_integer(&v, self.shape.map_or("", Shape::format))
            }
            Some(ValueType::IntOrString) => self.check_integer(&v, "int32"),
            Some(ValueType::Quantity) => return self.quantity(&v.to_string()),
            Some(ValueType::String | ValueType::Boolean | ValueType::Object | ValueType::List) => {
                self.wrong_type("number", &self.scalar_type());
            }
        }
        Value::Number(v)
    }

    pub(super) fn string(self, v: &str) -> Value {
        match self.shape.map(Shape::value_type) {
            None | Some(ValueType::Any | ValueType::IntOrString) => {}
            Some(ValueType::Quantity) => return self.quantity(v),
            Some(ValueType::String) => return self.text(v),
            Some(
                ValueType::Integer
                | ValueType::Number
                | ValueType::Boolean
                | ValueType::Object
                | ValueType::List,
            ) => {
                self.wrong_type("string", &self.go_type());
            }
        }
        Value::String(v.to_owned())
    }

    fn check_integer(&self, v: &Number, format: &str) {
        let fits = match (v.as_i64(), format) {
            (Some(v), "int32") => i32::try_from(v).is_ok(),
            (Some(_), _) => true,
            (None, _) => false,
        };
        if !fits {
            let go = if format == "int32" { "int32".to_owned() } else { self.go_type() };
            self.wrong_type(&format!("number {v}"), &go);
        }
    }

    fn text(&self, v: &str) -> Value {
        let Some(shape) = self.shape else { return Value::String(v.to_owned()) };
        match shape.format() {
            "byte" => {
                if let Some(at) = broken_base64(v) {
                    self.state.refuse(|| format!("illegal base64 data at input byte {at}"));
                }
                Value::String(v.replace(['\r', '\n'], ""))
            }
            "date-time" if shape.name().is_empty() => Value::String(v.to_owned()),
            "date-time" if v.is_empty() => Value::Null,
            "date-time" => match times::canonical(v, shape.name().ends_with("MicroTime")) {
                Ok(moment) => Value::String(moment),
                Err(error) => {
                    self.state.refuse(|| error);
                    Value::Null
                }
            },
            _ => Value::String(v.to_owned()),
        }
    }

    fn quantity(&self, v: &str) -> Value {
        match Quantity::parse(v.trim()) {
            Ok(quantity) => Value::String(quantity.to_string()),
            Err(error) => {
                self.quantity_error(error);
                Value::Null
            }
        }
    }

    fn quantity_error(&self, error: QuantityError) {
        self.state.refuse(|| error.to_string());
    }

    /// Returns the Go type for an error; times are decoded from strings, and their errors say `string`.
    fn scalar_type(&self) -> String {
        match self.shape.map(Shape::name) {
            Some(name) if name.ends_with("Time") => "string".to_owned(),
            Some(_) | None => self.go_type(),
        }
    }
}

/// Returns the offset at which a string stops being base64, as Go counts it.
fn broken_base64(text: &str) -> Option<usize> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let engine = GeneralPurpose::new(&STANDARD, config.with_decode_allow_trailing_bits(true));
    let cleaned = text.replace(['\r', '\n'], "");
    match engine.decode(&cleaned) {
        Ok(_) => None,
        Err(
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _),
        ) => Some(at),
        Err(base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding) => {
            Some(cleaned.len() / 4 * 4)
        }
    }
}
