//! The connection to AWS, from the flags, the environment and the INI file of `--cloud-config`.

use serde_json::{Map, Value, json};

use super::{Surroundings, discoveries, pairs};
use crate::args::cluster_autoscaler::Flags;

/// Returns the settings of the connection.
pub(super) fn connection(
    flags: &Flags,
    surroundings: &Surroundings,
    notices: &mut Vec<String>,
) -> Result<Value, String> {
    let mut connection = json!({});
    let region = surroundings.variable("AWS_REGION").or(surroundings.variable("AWS_DEFAULT_REGION"));
    if let Some(region) = region {
        connection["region"] = region.into();
    }
    let endpoints = endpoints(surroundings.cloud_config.as_deref().unwrap_or_default(), notices)?;
    if !endpoints.is_empty() {
        connection["endpoints"] = Value::Object(endpoints);
    }
    // The tags of several flags are one condition.
    let mut tags = Map::new();
    for text in discoveries(flags, "asg:")? {
        let text = text.strip_prefix("tag=").unwrap_or_default();
        let found: Vec<_> = pairs(text).collect();
        if found.is_empty() {
            return Err("--node-group-auto-discovery: expected asg:tag=KEY or asg:tag=KEY=VALUE".to_owned());
        }
        tags.extend(found.into_iter().map(|(key, value)| (key.to_owned(), value.into())));
    }
    if !tags.is_empty() {
        connection["discover"] = json!([{"tags": tags}]);
    }
    Ok(connection)
}

/// Returns the addresses of services from the sections `ServiceOverride`.
fn endpoints(file: &str, notices: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for (section, fields) in sections(file)? {
        let kind = section.split_whitespace().next().unwrap_or_default();
        if !kind.eq_ignore_ascii_case("ServiceOverride") {
            notices.push(format!("--cloud-config: section [{section}] has no effect"));
            continue;
        }
        let field = |name: &str| {
            let found = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let value = found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("--cloud-config: {name} is missing in section [{section}]"))
        };
        field("Region")?;
        field("SigningRegion")?;
        let (service, url) = (field("Service")?.to_lowercase(), field("URL")?);
        if !["autoscaling", "ec2", "eks"].contains(&service.as_str()) {
            notices.push(format!("--cloud-config: the service `{service}` is not used"));
            continue;
        }
        all.insert(service, url.into());
    }
    Ok(all)
}

/// A section with its keys and values.
type Section = (String, Vec<(String, String)>);

/// Reads an INI file.
fn sections(file: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for line in file.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push((title.trim().to_owned(), Vec::new()));
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (_, fields) = sections
            .last_mut()
            .ok_or_else(|| format!("--cloud-config: `{line}` is not in a section"))?;
        fields.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
    }
    Ok(sections)
}
