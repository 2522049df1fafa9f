//! Converts JSON into typed objects, with the exact path of each mismatch.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{CauseType, Problem};

/// Reads `value` as `T`; a value of the wrong type is a problem at its path. Unknown fields are passed over.
pub fn lenient<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Problem>> {
    serde_path_to_error::deserialize(value).map_err(|err| vec![type_problem(&err)])
}

/// Reads `value` as `T`; a value of the wrong type and an unknown field are problems at their paths. An unknown field
/// comes with the nearest one of the `known` names (any field of the kind).
pub fn strict<T: DeserializeOwned>(value: &Value, known: &[String]) -> Result<T, Vec<Problem>> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let inner = serde_path_to_error::Deserializer::new(value, &mut track);
    let read = serde_ignored::deserialize(inner, |path| {
        unknown.push(unknown_problem(&path.to_string(), known))
    });
    match read {
        Err(err) => Err(vec![Problem::new(tidy(&track.path().to_string()), err.to_string())]),
        Ok(_) if !unknown.is_empty() => Err(unknown),
        Ok(value) => Ok(value),
    }
}

fn type_problem(err: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = tidy(&err.path().to_string());
    Problem::of(CauseType::TypeInvalid, path, err.inner().to_string())
}

fn unknown_problem(path: &str, known: &[String]) -> Problem {
    let path = tidy(path);
    let name = path.rsplit('.').next().unwrap_or(&path);
    let nearest = known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(&name.to_lowercase(), &k.to_lowercase()), k))
        .min()
        .filter(|(distance, _)| *distance <= 2.max(name.len() / 2));
    let hint = nearest.map(|(_, k)| format!(", did you mean `{k}`?")).unwrap_or_default();
    Problem::new(path.clone(), format!("unknown field{hint}"))
}

/// Writes a path the way Kubernetes does: list indices in brackets, and no marks for optional values.
fn tidy(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('.').filter(|p| !matches!(*p, "?" | "")) {
        if part.chars().all(|c| c.is_ascii_digit()) && !out.is_empty() {
            out.push_str(&format!("[{part}]"));
            continue;
        }
        if !out.is_empty() && !part.starts_with('[') {
            out.push('.');
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only the shape matters")]
    #[serde(rename_all = "camelCase")]
    struct Shape {
        min_replicas: Option<i32>,
        #[serde(default)]
        items: Vec<Shape>,
    }

    #[test]
    fn problems_name_the_field_and_the_nearest_known_one() {
        let known = ["minReplicas".to_owned(), "items".to_owned()];
        for (value, wanted) in [
            (
                json!({"items": [{}, {"minReplica": 1}]}),
                "items[1].minReplica: unknown field, did you mean `minReplicas`?",
            ),
            (
                json!({"items": [{"minReplicas": "x"}]}),
                "items[0].minReplicas: invalid type: string \"x\", expected i32",
            ),
            (json!({"zzz": 1}), "zzz: unknown field"),
        ] {
            let problems = strict::<Shape>(&value, &known).unwrap_err();
            assert_eq!(problems[0].to_string(), wanted);
        }
    }
}
