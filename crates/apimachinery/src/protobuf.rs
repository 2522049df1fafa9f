//! Decodes request bodies in Kubernetes' protobuf encoding to JSON.
//!
//! Go clients send built-in kinds as protobuf by default. Only requests are decoded: such clients accept JSON responses. Field
//! numbers are part of the types (`pb=` in `data/types.txt`), so one decoder serves every kind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schema::{Shape, Types, ValueType};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// The nesting limit of messages; Kubernetes' own kinds need less than half of it.
const DEPTH: usize = 64;

/// Decodes a body.
pub fn read(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("the body does not start with Kubernetes' protobuf prefix")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in WireFields(envelope) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in WireFields(meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = string(text)?,
                        (2, Wire::Bytes(text)) => kind = string(text)?,
                        (_, Wire::Bytes(_) | Wire::Number(_)) => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            (_, Wire::Bytes(_) | Wire::Number(_)) => {}
        }
    }
    let shape = shape(&api_version, &kind)
        .ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut object = Map::new();
    message(shape, "", raw, &mut object, DEPTH)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn shape(api_version: &str, kind: &str) -> Option<Shape<'static>> {
    // Every group and version has these options, and all share one type.
    if kind == "DeleteOptions" {
        return Types::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Types::builtin().kind(group, version, kind)
}

/// Decodes the fields of a message into an object. `prefix` is the path of field numbers of the surrounding embedded structs,
/// whose fields JSON has in the same object.
fn message(
    shape: Shape<'_>,
    prefix: &str,
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("the message is nested too deeply")?;
    for field in WireFields(bytes) {
        let (number, wire) = field?;
        let path =
            if prefix.is_empty() { number.to_string() } else { format!("{prefix}.{number}") };
        if let Some((name, shape)) = shape.fields().find(|(_, f)| f.number() == path) {
            add(name, shape, wire, out, depth)?;
            continue;
        }
        let embeds =
            |f: Shape<'_>| f.number().strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        if let Wire::Bytes(bytes) = wire
            && shape.fields().any(|(_, f)| embeds(f))
        {
            message(shape, &path, bytes, out, depth)?;
        }
    }
    Ok(())
}

/// Adds one field: a value, another item of a list, or another entry of a map.
fn add(
    name: &str,
    shape: Shape<'_>,
    wire: Wire<'_>,
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if let Some(items) = shape.items() {
        let list = out.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        let value = value(items, wire, depth)?;
        list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
        return Ok(());
    }
    if let (Some(values), Wire::Bytes(bytes)) = (shape.values(), wire) {
        let (key, value) = entry(values, bytes, depth)?;
        let map = out.entry(name).or_insert_with(|| Value::Object(Map::new()));
        map.as_object_mut()
            .into_iter()
            .for_each(|map| drop(map.insert(key.clone(), value.clone())));
        return Ok(());
    }
    let value = value(shape, wire, depth)?;
    // Protobuf encodes Go's zero value; JSON omits it where the field has `omitempty`.
    let is_zero = matches!(&value, Value::Null | Value::Bool(false)) || value == "" || value == 0;
    if !(is_zero && (shape.omits_empty() || shape.omits_zero()) && !shape.is_pointer()) {
        out.insert(name.to_owned(), value);
    }
    Ok(())
}

/// Decodes an entry of a map: a message with a key and a value.
fn entry(values: Shape<'_>, bytes: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut found) = (String::new(), None);
    for field in WireFields(bytes) {
        match field? {
            (1, Wire::Bytes(text)) => key = string(text)?,
            // A list as a map's value is a message with its items.
            (2, Wire::Bytes(bytes)) if values.items().is_some() => {
                let mut list = Map::new();
                for item in WireFields(bytes) {
                    add("items", values, item?.1, &mut list, depth)?;
                }
                found = list.remove("items").or_else(|| Some(Value::Array(Vec::new())));
            }
            (2, wire) => found = Some(value(values, wire, depth)?),
            (_, Wire::Bytes(_) | Wire::Number(_)) => {}
        }
    }
    let found = found.map_or_else(|| value(values, Wire::Bytes(&[]), depth), Ok)?;
    Ok((key, found))
}

fn value(shape: Shape<'_>, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (shape.value_type(), wire) {
        (ValueType::Boolean, Wire::Number(n)) => Value::Bool(n != 0),
        // Negative numbers are encoded as two's complement.
        (ValueType::Integer, Wire::Number(n)) => Value::from(n.cast_signed()),
        (ValueType::Number, Wire::Number(n)) => Value::from(f64::from_bits(n)),
        (ValueType::String, Wire::Bytes(bytes)) => match shape.format() {
            "byte" => Value::String(STANDARD.encode(bytes)),
            "date-time" => time(bytes, shape.go().contains("MicroTime"))?,
            _ => Value::String(string(bytes)?),
        },
        (ValueType::Quantity, Wire::Bytes(bytes)) => {
            first_text(bytes)?.map_or(Value::Null, Value::String)
        }
        (ValueType::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
        (ValueType::Object, Wire::Bytes(bytes)) if shape.has_fields() => {
            let mut object = Map::new();
            message(shape, "", bytes, &mut object, depth)?;
            Value::Object(object)
        }
        (ValueType::Any, Wire::Bytes(bytes)) if shape.name().contains("JSONSchemaPropsOr") => {
            schema_or(shape.name(), bytes, depth)?
        }
        // A message without declared fields contains JSON.
        (ValueType::Object | ValueType::Any, Wire::Bytes(bytes)) => match first_text(bytes)? {
            Some(text) if !text.is_empty() => {
                serde_json::from_str(&text).map_err(|err| err.to_string())?
            }
            Some(_) | None => Value::Null,
        },
        (ValueType::Boolean | ValueType::Integer | ValueType::Number, Wire::Bytes([])) => {
            Value::from(0)
        }
        (expected, found) => {
            return Err(format!("expected {}, found {}", described(expected), found.described()));
        }
    })
}

/// Decodes a value that is a schema, a boolean, or a list of schemas or names.
fn schema_or(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let depth = depth.checked_sub(1).ok_or("the message is nested too deeply")?;
    let (base, _) = name.split_once("Or").unwrap_or((name, ""));
    let inner = Types::builtin().named(base).ok_or("the type of schemas is not known")?;
    let (mut schema, mut allows, mut several) = (None, false, Vec::new());
    let number_of_schema = if name.ends_with("OrBool") { 2 } else { 1 };
    for field in WireFields(bytes) {
        match field? {
            (1, Wire::Number(n)) => allows = n != 0,
            (n, Wire::Bytes(bytes)) if n == number_of_schema => {
                schema = Some(value(inner, Wire::Bytes(bytes), depth)?);
            }
            (2, Wire::Bytes(bytes)) if name.ends_with("OrStringArray") => {
                several.push(Value::String(string(bytes)?));
            }
            (2, Wire::Bytes(bytes)) => several.push(value(inner, Wire::Bytes(bytes), depth)?),
            (_, Wire::Bytes(_) | Wire::Number(_)) => {}
        }
    }
    Ok(match schema {
        Some(schema) => schema,
        None if name.ends_with("OrBool") => Value::Bool(allows),
        None => Value::Array(several),
    })
}

/// Decodes a time; an empty message is none.
fn time(bytes: &[u8], with_micros: bool) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in WireFields(bytes) {
        match field? {
            (1, Wire::Number(n)) => seconds = Some(n.cast_signed()),
            (2, Wire::Number(n)) => nanos = i32::try_from(n).map_err(|err| err.to_string())?,
            (_, Wire::Bytes(_) | Wire::Number(_)) => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(Value::Null) };
    let moment = Timestamp::new(seconds, nanos).map_err(|err| err.to_string())?;
    let text = if with_micros { format!("{moment:.6}") } else { format!("{moment:.0}") };
    Ok(Value::String(text))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in WireFields(bytes) {
        match field? {
            (1, Wire::Number(n)) => is_text = n != 0,
            (2, Wire::Number(n)) => number = n.cast_signed(),
            (3, Wire::Bytes(bytes)) => text = string(bytes)?,
            (_, Wire::Bytes(_) | Wire::Number(_)) => {}
        }
    }
    Ok(if is_text { Value::String(text) } else { Value::from(number) })
}

/// Decodes the first field of a message as a string.
fn first_text(bytes: &[u8]) -> Result<Option<String>, String> {
    for field in WireFields(bytes) {
        if let (1, Wire::Bytes(text)) = field? {
            return string(text).map(Some);
        }
    }
    Ok(None)
}

fn string(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|err| err.to_string())
}

/// Returns the name of a type for messages.
fn described(expected: ValueType) -> &'static str {
    match expected {
        ValueType::Any => "a value",
        ValueType::String => "a string",
        ValueType::Integer => "an integer",
        ValueType::Number => "a number",
        ValueType::Boolean => "a boolean",
        ValueType::Object => "an object",
        ValueType::List => "a list",
        ValueType::Quantity => "a quantity",
        ValueType::IntOrString => "an integer or a string",
    }
}

/// An undecoded value.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    /// Describes the value for messages, in which its content, of any size, has no place.
    fn described(self) -> String {
        match self {
            Self::Number(number) => format!("the number {number}"),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
        }
    }
}

/// An iterator over the fields of a message.
struct WireFields<'a>(&'a [u8]);

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "the message is truncated or corrupt".to_owned()))
    }
}

impl<'a> WireFields<'a> {
    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(len)?)
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((key >> 3, wire))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Encodes a message from its fields.
    fn message_bytes(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let field = |(number, bytes): &(u8, &[u8])| {
            [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], *bytes].concat()
        };
        fields.iter().flat_map(field).collect()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = message_bytes(&[(1, api_version.as_bytes()), (2, kind.as_bytes())]);
        [MAGIC, &message_bytes(&[(1, &meta), (2, raw)])].concat()
    }

    #[test]
    fn a_value_of_the_wrong_type_is_described_without_its_bytes() {
        // `spec` of a Pod as a number, and the grace period in it as bytes.
        let number = [2 << 3, 7];
        let text = message_bytes(&[(2, &message_bytes(&[(4, b"first")]))]);
        for (raw, wanted) in [
            (&number[..], "expected an object, found the number 7"),
            (&text, "expected an integer, found 5 bytes"),
        ] {
            let problem = read(&body("v1", "Pod", raw)).unwrap_err();
            assert!(problem.contains(wanted), "{problem}");
        }
    }

    #[test]
    fn a_pod_with_an_embedded_source_is_decoded() {
        let claim = message_bytes(&[
            (1, b"data"),
            (2, &message_bytes(&[(10, &message_bytes(&[(1, b"claim")]))])),
        ]);
        let port = [message_bytes(&[(1, b"http")]), vec![3 << 3, 80]].concat();
        let container = message_bytes(&[
            (1, b"main"),
            (2, b"web:1"),
            (6, &port),
            (
                8,
                &message_bytes(&[(
                    2,
                    &message_bytes(&[(1, b"cpu"), (2, &message_bytes(&[(1, b"500m")]))]),
                )]),
            ),
        ]);
        let pod = message_bytes(&[
            (
                1,
                &message_bytes(&[
                    (1, b"a"),
                    (8, &[]),
                    (11, &message_bytes(&[(1, b"x"), (2, b"y")])),
                ]),
            ),
            (2, &message_bytes(&[(1, &claim), (2, &container)])),
        ]);
        let read = read(&body("v1", "Pod", &pod)).unwrap();
        let wanted = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}],
                     "containers": [{"name": "main", "image": "web:1", "ports": [{"name": "http", "containerPort": 80}],
                                     "resources": {"requests": {"cpu": "500m"}}}]}});
        assert_eq!(read, wanted);
    }

    #[test]
    fn unknown_kinds_and_corrupt_bodies_are_rejected() {
        assert!(read(b"{}").unwrap_err().contains("does not start"));
        assert!(read(&body("v1", "Unicorn", &[])).unwrap_err().contains("no kind \"Unicorn\""));
        assert!(read(&body("v1", "Pod", &[0x0a, 0x7f])).unwrap_err().contains("truncated"));
    }

    proptest! {
        #[test]
        fn decoding_never_panics(raw: Vec<u8>) {
            let _ = read(&body("v1", "Pod", &raw));
            let _ = read(&raw);
        }
    }
}
