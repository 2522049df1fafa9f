//! JSON patch (RFC 6902).
//!
//! Our own implementation, because kube-apiserver deviates from the standard in ways that users rely on: indices may be
//! negative, `replace` of an absent member adds it, and the first segment of a path without a leading slash is ignored.

use super::{Error, type_name};
use crate::depth::{MAX_DEPTH, TOO_DEEP, measure};
use crate::quote::quote;
use serde_json::{Map, Value};

/// The most operations that a patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes of JSON that all `copy` operations of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The most values that all operations of a patch may visit or shift. Each operation may shift a long list by one item or
/// move a large value, and there may be thousands of them.
const MAX_WORK: usize = 100_000_000;

/// The resources that the operations of a patch have used so far.
#[derive(Default)]
struct PatchBudget {
    copied: usize,
    work: usize,
}

impl PatchBudget {
    fn copy(&mut self, bytes: usize) -> Result<(), String> {
        self.copied += bytes;
        if self.copied > MAX_COPIED {
            return Err(format!("copies add more than {MAX_COPIED} bytes"));
        }
        Ok(())
    }

    fn work(&mut self, values: usize) -> Result<(), String> {
        self.work += values;
        if self.work > MAX_WORK {
            return Err(format!("the operations move more than {MAX_WORK} values"));
        }
        Ok(())
    }

    /// Rejects a value that would be nested too deeply at a path. The path exists in the object, so it is no deeper than that.
    fn place(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let found = measure(value);
        self.work(found.values)?;
        let above = path.matches('/').count();
        if above + found.depth > MAX_DEPTH { Err(TOO_DEEP.to_owned()) } else { Ok(()) }
    }
}

/// A parsed patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
    /// Warnings about unknown members of operations; errors under strict field validation.
    pub unknown: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

impl Patch {
    /// Parses the list of operations.
    pub fn decode(patch: Value) -> Result<Self, Error> {
        let items = match patch {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(mismatch(&other, "Go value of type []handlers.jsonPatchOp")),
        };
        if items.len() > MAX_OPERATIONS {
            return Err(Error::TooManyOperations { count: items.len() });
        }
        let mut unknown = Vec::new();
        let mut operations = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            operations.push(Operation::decode(index, item, &mut unknown)?);
        }
        Ok(Self { operations, unknown })
    }

    /// Applies the operations in order. After an error `object` is partially changed: pass a copy.
    pub fn apply(self, object: &mut Value) -> Result<(), Error> {
        let mut used = PatchBudget::default();
        for operation in self.operations {
            operation.apply(object, &mut used).map_err(Error::DoesNotApply)?;
        }
        Ok(())
    }
}

fn mismatch(found: &Value, wanted: &str) -> Error {
    Error::Malformed(format!(
        "error decoding patch: json: cannot unmarshal {} into {wanted}",
        type_name(found)
    ))
}

impl Operation {
    fn decode(index: usize, item: Value, unknown: &mut Vec<String>) -> Result<Self, Error> {
        let mut operation = Self::default();
        let members = match item {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => return Err(mismatch(&other, "Go value of type handlers.jsonPatchOp")),
        };
        for (name, value) in members {
            let text = |value: Value| match value {
                Value::String(text) => Ok(Some(text)),
                Value::Null => Ok(None),
                other => Err(mismatch(
                    &other,
                    &format!("Go struct field jsonPatchOp.{name} of type string"),
                )),
            };
            match name.as_str() {
                "op" => operation.op = text(value)?.unwrap_or_default(),
                "path" => operation.path = text(value)?,
                "from" => operation.from = text(value)?,
                "value" => operation.value = value,
                _ => unknown.push(format!(
                    "json patch unknown field {}",
                    quote(&format!("[{index}].{name}"))
                )),
            }
        }
        Ok(operation)
    }

    fn apply(self, object: &mut Value, used: &mut PatchBudget) -> Result<(), String> {
        let path = self.path.ok_or("operation has no path")?;
        match self.op.as_str() {
            "add" => {
                used.place(&path, &self.value)?;
                PatchTarget::find(object, &path)?.add(self.value, used)
            }
            "remove" => PatchTarget::find(object, &path)?.remove(used).map(drop),
            "replace" if path.is_empty() && (self.value.is_object() || self.value.is_array()) => {
                *object = self.value;
                Ok(())
            }
            "replace" => {
                used.place(&path, &self.value)?;
                PatchTarget::find(object, &path)?.set(self.value)
            }
            "move" => {
                let from = self.from.ok_or("move has no from")?;
                let value = PatchTarget::find(object, &from)?.remove(used)?;
                used.place(&path, &value)?;
                PatchTarget::find(object, &path)?.add(value, used)
            }
            "copy" => {
                let from = self.from.ok_or("copy has no from")?;
                let value =
                    PatchTarget::find(object, &from)?.get()?.unwrap_or(&Value::Null).clone();
                used.copy(size(&value))?;
                used.place(&path, &value)?;
                PatchTarget::find(object, &path)?.add(value, used)
            }
            "test" if path.is_empty() => same(&path, *object == self.value),
            "test" => {
                let place = PatchTarget::find(object, &path)?;
                // A test treats absent and null as equal.
                let found = place.get()?.unwrap_or(&Value::Null);
                same(&path, *found == self.value)
            }
            other => Err(format!("unknown operation {}", quote(other))),
        }
    }
}

fn same(path: &str, is: bool) -> Result<(), String> {
    if is { Ok(()) } else { Err(format!("the value at {} is another one", quote(path))) }
}

/// Returns the length of a value's JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// The target of an operation: a member of an object or an item of a list.
enum PatchTarget<'a> {
    Member(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

impl<'a> PatchTarget<'a> {
    /// Follows all but the last segment of a path.
    fn find(object: &'a mut Value, path: &str) -> Result<Self, String> {
        let missing = || format!("there is nothing at {}", quote(path));
        let mut pieces =
            path.split('/').skip(1).map(|piece| piece.replace("~1", "/").replace("~0", "~"));
        let mut key = pieces.next().ok_or_else(missing)?;
        let mut at = object;
        for next in pieces {
            at = match at {
                Value::Object(members) => members.get_mut(&key),
                Value::Array(items) => {
                    item_index(&key, items.len()).ok().and_then(|index| items.get_mut(index))
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            }
            .ok_or_else(missing)?;
            key = next;
        }
        match at {
            Value::Object(members) => Ok(Self::Member(members, key)),
            Value::Array(items) => Ok(Self::Item(items, key)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(missing()),
        }
    }

    fn get(&self) -> Result<Option<&Value>, String> {
        match self {
            Self::Member(members, key) => Ok(members.get(key)),
            Self::Item(items, key) => Ok(items.get(item_index(key, items.len())?)),
        }
    }

    fn set(self, value: Value) -> Result<(), String> {
        match self {
            Self::Member(members, key) => {
                members.insert(key, value);
            }
            Self::Item(items, key) => {
                let index = item_index(&key, items.len())?;
                items[index] = value;
            }
        }
        Ok(())
    }

    fn add(self, value: Value, used: &mut PatchBudget) -> Result<(), String> {
        match self {
            Self::Member(members, key) => {
                members.insert(key, value);
            }
            Self::Item(items, key) if key == "-" => items.push(value),
            Self::Item(items, key) => {
                let index = item_index(&key, items.len() + 1)?;
                used.work(items.len() - index)?;
                items.insert(index, value);
            }
        }
        Ok(())
    }

    fn remove(self, used: &mut PatchBudget) -> Result<Value, String> {
        match self {
            Self::Member(members, key) => {
                members.remove(&key).ok_or_else(|| format!("there is no member {}", quote(&key)))
            }
            Self::Item(items, key) => {
                let index = item_index(&key, items.len())?;
                used.work(items.len() - index)?;
                Ok(items.remove(index))
            }
        }
    }
}

/// Parses an index below `length`; a negative one counts from the end.
fn item_index(key: &str, length: usize) -> Result<usize, String> {
    let outside = || format!("{} is not an index below {length}", quote(key));
    let index: i64 = key.parse().map_err(|_| outside())?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok().filter(|_| index < length).ok_or_else(outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(object: &Value, operation: &Value) -> Option<Value> {
        let mut result = object.clone();
        Patch::decode(json!([operation])).unwrap().apply(&mut result).ok().map(|()| result)
    }

    #[test]
    fn operations_behave_as_in_kube_apiserver() {
        let object = json!({"a": {"b/c": 1}, "list": [1, 2], "null": null});
        for (operation, wanted) in [
            (
                json!({"op": "add", "path": "/list/0", "value": 0}),
                Some(("/list", json!([0, 1, 2]))),
            ),
            (
                json!({"op": "add", "path": "/list/-", "value": 0}),
                Some(("/list", json!([1, 2, 0]))),
            ),
            (
                json!({"op": "add", "path": "/list/2", "value": 0}),
                Some(("/list", json!([1, 2, 0]))),
            ),
            (
                json!({"op": "add", "path": "/list/-1", "value": 0}),
                Some(("/list", json!([1, 2, 0]))),
            ),
            (json!({"op": "add", "path": "/list/3", "value": 0}), None),
            (json!({"op": "add", "path": "/list/x", "value": 0}), None),
            (json!({"op": "add", "path": "/x/y", "value": 0}), None),
            (json!({"op": "add", "path": "/null/y", "value": 0}), None),
            (json!({"op": "add", "path": "", "value": {}}), None),
            (json!({"op": "add", "path": "/a/b~1c", "value": 2}), Some(("/a", json!({"b/c": 2})))),
            (json!({"op": "replace", "path": "/a/new", "value": 2}), Some(("/a/new", json!(2)))),
            (json!({"op": "replace", "path": "/list/2", "value": 2}), None),
            (json!({"op": "replace", "path": "", "value": {"z": 1}}), Some(("", json!({"z": 1})))),
            (json!({"op": "replace", "path": "ignored/a", "value": 2}), Some(("/a", json!(2)))),
            (json!({"op": "remove", "path": "/list/-1"}), Some(("/list", json!([1])))),
            (json!({"op": "remove", "path": "/x"}), None),
            (json!({"op": "move", "from": "/list/0", "path": "/a/n"}), Some(("/a/n", json!(1)))),
            (json!({"op": "move", "from": "/x", "path": "/a/n"}), None),
            (json!({"op": "copy", "from": "/list", "path": "/a/n"}), Some(("/a/n", json!([1, 2])))),
            (json!({"op": "copy", "from": "/x", "path": "/a/n"}), Some(("/a/n", json!(null)))),
            (
                json!({"op": "test", "path": "/list", "value": [1, 2]}),
                Some(("/list", json!([1, 2]))),
            ),
            (json!({"op": "test", "path": "/list", "value": [1]}), None),
            (json!({"op": "test", "path": "/x"}), Some(("/null", json!(null)))),
            (json!({"op": "test", "path": "/null", "value": null}), Some(("/null", json!(null)))),
            (json!({"op": "jump", "path": "/x"}), None),
            (json!({"op": "add"}), None),
        ] {
            let result = patched(&object, &operation);
            match wanted {
                None => assert_eq!(result, None, "{operation}"),
                Some((at, value)) => {
                    assert_eq!(result.unwrap().pointer(at), Some(&value), "{operation}")
                }
            }
        }
    }

    #[test]
    fn messages_about_malformed_patches_match_kube_apiserver() {
        for (patch, message) in [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!([1]), "number into Go value of type handlers.jsonPatchOp"),
            (json!([{"op": 3}]), "number into Go struct field jsonPatchOp.op of type string"),
        ] {
            let message = format!("error decoding patch: json: cannot unmarshal {message}");
            assert_eq!(Patch::decode(patch).unwrap_err(), Error::Malformed(message));
        }
        let many = Value::Array(vec![json!({}); MAX_OPERATIONS + 1]);
        let refused = Patch::decode(many).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }

    #[test]
    fn no_operation_makes_an_object_too_deep() {
        let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        // Each copy into its own deepest member doubles the depth: 13 of them overflow a thread's stack.
        let double = |power: u32| json!({"op": "copy", "from": "/a", "path": "/a".repeat(2_usize.pow(power) + 1)});
        for (object, patch, fits) in [
            (deep(2), json!([double(0), double(1), double(2)]), true),
            (deep(2), (0..13).map(double).collect(), false),
            (deep(98), json!([{"op": "add", "path": "/b", "value": 1}]), true),
            (json!({}), json!([{"op": "add", "path": "/a", "value": deep(98)}]), true),
            (json!({}), json!([{"op": "add", "path": "/a", "value": deep(99)}]), false),
            (json!({}), json!([{"op": "replace", "path": "/a", "value": deep(99)}]), false),
            (
                json!({"a": deep(60), "b": deep(60)}),
                json!([{"op": "move", "from": "/a", "path": format!("/b{}", "/a".repeat(60))}]),
                false,
            ),
        ] {
            let mut result = object.clone();
            let applied = Patch::decode(patch.clone()).unwrap().apply(&mut result);
            assert_eq!(applied.is_ok(), fits, "{patch}");
            assert!(measure(&result).depth <= MAX_DEPTH, "{patch}");
        }
    }

    #[test]
    fn the_work_of_many_operations_is_bounded() {
        let mut object = json!({"list": vec![0; 1_000_000]});
        let first = json!({"op": "add", "path": "/list/0", "value": 0});
        let refused = Patch::decode(Value::Array(vec![first; MAX_OPERATIONS])).unwrap();
        assert!(refused.apply(&mut object).unwrap_err().to_string().contains("move more than"));
    }

    #[test]
    fn the_size_that_copies_add_is_bounded() {
        let doubling = Value::Array(vec![json!({"op": "copy", "from": "", "path": "/x"}); 1]);
        assert!(Patch::decode(doubling).unwrap().apply(&mut json!({})).is_err());
        let mut object = json!({"a": ["x".repeat(100_000)]});
        let copies = Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40]);
        assert!(Patch::decode(copies).unwrap().apply(&mut object).is_err());
    }
}
