//! The dialect of the first design of counters and lists, and its conversion to that of Agones.
//!
//! The spelling distinguishes the two. What arrives in the old spelling leaves here in Agones' own; problems found later
//! are reported under the names that were written.

use serde_json::{Map, Value, json};

use crate::Problem;

/// Which fields were renamed: what they are called now, and what was written.
#[derive(Debug, Default)]
pub(crate) struct Renames(Vec<(String, String)>);

impl Renames {
    /// Moves `map[from]` to `map[to]`; `path` is where the map is.
    pub(crate) fn rename(
        &mut self,
        map: &mut Map<String, Value>,
        path: &str,
        from: &str,
        to: &str,
    ) {
        if map.contains_key(to) {
            return;
        }
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
            self.note(format!("{path}.{to}"), format!("{path}.{from}"));
        }
    }

    /// Remembers that the field at `now` was written as `before`.
    pub(crate) fn note(&mut self, now: String, before: String) {
        self.0.push((now, before));
    }

    /// Reports problems under the names that were written. The inmost rename comes first, since an outer one changes
    /// the path that it is found by.
    pub(crate) fn put_back<T>(&self, result: Result<T, Vec<Problem>>) -> Result<T, Vec<Problem>> {
        result.map_err(|problems| {
            problems.into_iter().map(|p| Problem { path: self.written(p.path), ..p }).collect()
        })
    }

    fn written(&self, path: String) -> String {
        let under = |path: &str, now: &str| {
            path.strip_prefix(now)
                .filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                .map(str::to_owned)
        };
        self.0.iter().rev().fold(path, |path, (now, before)| match under(&path, now) {
            Some(rest) => format!("{before}{rest}"),
            None => path,
        })
    }
}

/// Settles the counters and lists of the game server spec at `pointer`.
pub(crate) fn game_server(value: &mut Value, pointer: &str) -> Renames {
    let mut renames = Renames::default();
    let path = pointer.trim_start_matches('/').replace('/', ".");
    let Some(spec) = value.pointer_mut(pointer) else { return renames };
    for (key, counter) in entries(spec, "counters") {
        if counter.is_null() {
            *counter = json!({});
        }
        let Some(counter) = counter.as_object_mut() else { continue };
        if counter.contains_key("default") && !counter.contains_key("count") {
            renames.rename(counter, &format!("{path}.counters.{key}"), "default", "count");
            let capacity = counter.entry("capacity").or_insert(Value::Null);
            if capacity.is_null() || *capacity == json!(0) {
                *capacity = json!(i64::MAX);
            }
        }
    }
    for (_, list) in entries(spec, "lists") {
        if list.is_null() {
            *list = json!({});
        }
    }
    renames
}

/// Returns the entries of a map in an object; none if it is not one.
pub(crate) fn entries<'a>(
    value: &'a mut Value,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    value.get_mut(name).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.iter_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_lists_of_the_first_design_become_agones_own() {
        for (written, converted) in [
            (json!({"default": 1, "capacity": 5}), json!({"count": 1, "capacity": 5})),
            (json!({"default": 1}), json!({"count": 1, "capacity": i64::MAX})),
            (json!({"default": 1, "capacity": 0}), json!({"count": 1, "capacity": i64::MAX})),
            (json!({"count": 1, "capacity": 0}), json!({"count": 1, "capacity": 0})),
            (json!(null), json!({})),
        ] {
            let mut value = json!({"spec": {"counters": {"a": written}, "lists": {"b": null}}});
            game_server(&mut value, "/spec");
            assert_eq!(value, json!({"spec": {"counters": {"a": converted}, "lists": {"b": {}}}}));
        }
    }

    #[test]
    fn problems_are_reported_under_the_names_that_were_written() {
        let mut value = json!({"spec": {"counters": {"a": {"default": -1}}}});
        let renames = game_server(&mut value, "/spec");
        let found = renames.put_back::<()>(Err(vec![Problem::new("spec.counters.a.count", "m")]));
        assert_eq!(found.unwrap_err()[0].path, "spec.counters.a.default");
    }
}
