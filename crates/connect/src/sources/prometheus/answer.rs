//! The answers of the Prometheus HTTP API.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{Answer, QueryError};
use crate::endpoint::HttpAnswer;

/// The envelope of every answer.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "camelCase")]
enum Envelope {
    Success {
        data: Data,
    },
    #[serde(rename_all = "camelCase")]
    Error {
        #[serde(default)]
        error_type: String,
        #[serde(default)]
        error: String,
    },
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "camelCase")]
enum Data {
    Matrix(Vec<RangeSeries>),
    Vector(Vec<InstantSeries>),
    Scalar(Sample),
    String(Sample),
}

/// A time in seconds, and a number as text: it may be `NaN` or `+Inf`.
type Sample = (f64, String);
type Labels = BTreeMap<String, String>;

#[derive(Deserialize)]
struct RangeSeries {
    #[serde(default)]
    metric: Labels,
    /// Absent in a series of native histograms.
    values: Option<Vec<Sample>>,
}

#[derive(Deserialize)]
struct InstantSeries {
    #[serde(default)]
    metric: Labels,
    /// Absent in a series of native histograms.
    value: Option<Sample>,
}

/// Reads the points of the only series.
pub(super) fn read(
    answer: &HttpAnswer,
    step: Option<SignedDuration>,
) -> Result<Answer, QueryError> {
    let url = || answer.url.to_string();
    let wrong = |problem: String| QueryError::WrongAnswer { url: url(), problem };
    let envelope: Envelope = match serde_json::from_slice(&answer.body) {
        Ok(envelope) => envelope,
        // Also a proxy in front of Prometheus may answer, in its own format.
        Err(_) if !answer.status.is_success() => {
            return Err(answer.error().into());
        }
        Err(err) => {
            return Err(wrong(format!("something other than a result of Prometheus: {err}")));
        }
    };
    let series = match envelope {
        Envelope::Error { error_type, error } => {
            return Err(QueryError::Refused {
                url: url(),
                message: format!("{error_type}: {error}"),
            });
        }
        Envelope::Success { data } => series(data).map_err(wrong)?,
    };
    let Some((_, samples)) = only(series).map_err(wrong)? else { return Ok(Answer::NoData) };
    let points = samples.iter().map(point).collect::<Result<_, _>>().map_err(wrong)?;
    Ok(Answer::from_points(points, step))
}

/// Returns the samples of each series.
fn series(data: Data) -> Result<Vec<(Labels, Vec<Sample>)>, String> {
    const HISTOGRAM: &str = "a native histogram; expected numbers";
    match data {
        Data::Matrix(all) => all
            .into_iter()
            .map(|series| Ok((series.metric, series.values.ok_or(HISTOGRAM)?)))
            .collect(),
        Data::Vector(all) => all
            .into_iter()
            .map(|series| Ok((series.metric, vec![series.value.ok_or(HISTOGRAM)?])))
            .collect(),
        Data::Scalar(sample) => Ok(vec![(Labels::new(), vec![sample])]),
        Data::String((_, text)) => Err(format!("the string {text:?}; expected numbers")),
    }
}

fn only(mut series: Vec<(Labels, Vec<Sample>)>) -> Result<Option<(Labels, Vec<Sample>)>, String> {
    match &series[..] {
        [(first, _), (second, _), ..] => Err(format!(
            "{} series, among them {} and {}; aggregate them in the query, for example with `sum`",
            series.len(),
            name(first),
            name(second),
        )),
        [_] | [] => Ok(series.pop()),
    }
}

/// Writes the labels of a series as PromQL does.
fn name(labels: &Labels) -> String {
    let metric = labels.get("__name__").map_or("", String::as_str);
    let others = labels.iter().filter(|(key, _)| *key != "__name__");
    let others: Vec<String> = others.map(|(key, value)| format!("{key}={value:?}")).collect();
    format!("{metric}{{{}}}", others.join(", "))
}

fn point((seconds, value): &Sample) -> Result<(Timestamp, f64), String> {
    let at = Timestamp::from_millisecond((seconds * 1000.0).round() as i64)
        .map_err(|_| format!("the time {seconds}, which is out of range"))?;
    // Rust reads `NaN`, `+Inf` and `-Inf` as Prometheus writes them.
    let value = value.parse().map_err(|_| format!("`{value}`; expected a number"))?;
    Ok((at, value))
}

#[cfg(test)]
mod tests {
    use decide::checks::Series;
    use reqwest::StatusCode;
    use serde_json::{Value, json};

    use super::*;

    fn answered(status: u16, body: impl Into<Vec<u8>>) -> Result<Answer, String> {
        let url = "http://prom/api/v1/query".parse().unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        let answer = HttpAnswer { url, status, body: body.into() };
        read(&answer, None).map_err(|err| err.to_string())
    }

    fn success(kind: &str, result: Value) -> Result<Answer, String> {
        let data = json!({"resultType": kind, "result": result});
        answered(200, json!({"status": "success", "data": data, "warnings": ["w"]}).to_string())
    }

    fn points(points: &[(i64, f64)]) -> Result<Answer, String> {
        let point = |(at, value): &(i64, f64)| (Timestamp::from_millisecond(*at).unwrap(), *value);
        Ok(Answer::Points(Series::new(points.iter().map(point).collect(), None)))
    }

    #[test]
    fn every_type_of_result_is_read() {
        let matrix = json!([{"metric": {}, "values": [[1.5, "1"], [2.5, "NaN"], [3.5, "2.5"], [4.5, "+Inf"]]}]);
        assert_eq!(success("matrix", matrix), points(&[(1500, 1.0), (3500, 2.5)]));
        let vector = json!([{"metric": {"a": "b"}, "value": [1, "7"]}]);
        assert_eq!(success("vector", vector), points(&[(1000, 7.0)]));
        assert_eq!(success("scalar", json!([1.25, "7"])), points(&[(1250, 7.0)]));
        assert_eq!(success("vector", json!([])), Ok(Answer::NoData));
        assert_eq!(success("scalar", json!([1, "NaN"])), Ok(Answer::NoData));
        for (kind, result, problem) in [
            ("string", json!([1, "x"]), "the string \"x\"; expected numbers"),
            (
                "vector",
                json!([{"metric": {}, "histogram": [1, {}]}]),
                "a native histogram; expected numbers",
            ),
            ("scalar", json!([1, "x"]), "`x`; expected a number"),
        ] {
            let wanted = format!("http://prom/api/v1/query answered with {problem}");
            assert_eq!(success(kind, result), Err(wanted));
        }
    }

    #[test]
    fn two_series_are_an_error_that_names_them() {
        let series =
            |pod: &str| json!({"metric": {"__name__": "up", "pod": pod}, "value": [1, "1"]});
        assert_eq!(
            success("vector", json!([series("a"), series("b"), series("c")])),
            Err("http://prom/api/v1/query answered with 3 series, among them up{pod=\"a\"} and up{pod=\"b\"}; \
                 aggregate them in the query, for example with `sum`"
                .to_owned())
        );
    }

    #[test]
    fn an_error_is_that_of_prometheus_or_of_a_proxy_before_it() {
        let refused = json!({"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end"});
        assert_eq!(
            answered(400, refused.to_string()),
            Err(
                "http://prom/api/v1/query refused the query: bad_data: parse error: unexpected end"
                    .to_owned()
            )
        );
        assert_eq!(
            answered(502, "<html>"),
            Err("http://prom/api/v1/query answered 502 Bad Gateway; expected 200".to_owned())
        );
        assert!(
            answered(200, "{}")
                .unwrap_err()
                .contains("something other than a result of Prometheus")
        );
    }
}
