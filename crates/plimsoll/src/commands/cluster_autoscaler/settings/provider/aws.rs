//! The connection to AWS, from the flags, the environment and the INI file of `--cloud-config`.

use api::plimsoll::node_autoscaler::{Aws, AwsDiscovery, AwsEndpoints};

use super::{Surroundings, discoveries, pairs};
use crate::args::cluster_autoscaler::Flags;

/// A section of an INI file with its keys and values.
type Section = (String, Vec<(String, String)>);

/// Returns the settings of the connection.
pub(super) fn connection(
    flags: &Flags,
    surroundings: &Surroundings,
    notices: &mut Vec<String>,
) -> Result<Aws, String> {
    // The tags of several flags are one condition.
    let mut discovery = AwsDiscovery::default();
    for text in discoveries(flags, "asg:")? {
        let mut tags = pairs(text.strip_prefix("tag=").unwrap_or_default()).peekable();
        if tags.peek().is_none() {
            let wrong = "--node-group-auto-discovery: expected asg:tag=KEY or asg:tag=KEY=VALUE";
            return Err(wrong.to_owned());
        }
        discovery.tags.extend(tags.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    let region = surroundings.variable("AWS_REGION").unwrap_or_default().to_owned();
    let file = surroundings.cloud_config.as_deref().unwrap_or_default();
    let discover = if discovery.tags.is_empty() { Vec::new() } else { vec![discovery] };
    Ok(Aws { region, endpoints: endpoints(file, notices)?, discover })
}

/// Returns the addresses of services from the sections `ServiceOverride`.
fn endpoints(file: &str, notices: &mut Vec<String>) -> Result<AwsEndpoints, String> {
    let mut endpoints = AwsEndpoints::default();
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
        let (service, url) = (field("Service")?.to_lowercase(), field("URL")?);
        for required in ["Region", "SigningRegion"] {
            field(required)?;
        }
        match service.as_str() {
            "autoscaling" => endpoints.autoscaling = url,
            "ec2" => endpoints.ec2 = url,
            "eks" => endpoints.eks = url,
            other => notices.push(format!("--cloud-config: the service `{other}` is not used")),
        }
    }
    Ok(endpoints)
}

/// Reads an INI file.
fn sections(file: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let lines = file.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
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
