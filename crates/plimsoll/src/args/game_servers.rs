//! Arguments about game servers: their host ports, and the resources of the SDK server beside each.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use api::quantity::Quantity;

/// The name of the range for ports that name none.
pub(crate) const DEFAULT_RANGE: &str = "default";

/// Host ports and sidecars of game servers, also as Agones' settings.
#[derive(clap::Args)]
pub(crate) struct GameServerArgs {
    /// Host ports for game servers; can be repeated with a NAME, which the ports of a GameServer select with `range` [default: 7000-8000]
    #[arg(long = "port-range", value_name = "[NAME=]MIN-MAX", value_parser = port_range)]
    pub(crate) port_ranges: Vec<PortRange>,
    /// First port of the default range, as in Agones
    #[arg(long, value_name = "PORT", env = "MIN_PORT", hide_env_values = true)]
    pub(crate) min_port: Option<u16>,
    /// Last port of the default range, as in Agones
    #[arg(long, value_name = "PORT", env = "MAX_PORT", hide_env_values = true)]
    pub(crate) max_port: Option<u16>,
    /// Named ranges of host ports, as in Agones: {"NAME": [MIN, MAX], …}
    #[arg(
        long, value_name = "JSON", env = "ADDITIONAL_PORT_RANGES", hide_env_values = true,
        value_parser = additional_ranges
    )]
    pub(crate) additional_port_ranges: Option<AdditionalRanges>,
    /// CPU request of the SDK server of each game server; 0 for none
    #[arg(long, value_name = "QUANTITY", env = "SIDECAR_CPU_REQUEST", hide_env_values = true, value_parser = amount)]
    pub(crate) sidecar_cpu_request: Option<Quantity>,
    /// CPU limit of the SDK server of each game server; 0 for none
    #[arg(long, value_name = "QUANTITY", env = "SIDECAR_CPU_LIMIT", hide_env_values = true, value_parser = amount)]
    pub(crate) sidecar_cpu_limit: Option<Quantity>,
    /// Memory request of the SDK server of each game server; 0 for none
    #[arg(long, value_name = "QUANTITY", env = "SIDECAR_MEMORY_REQUEST", hide_env_values = true, value_parser = amount)]
    pub(crate) sidecar_memory_request: Option<Quantity>,
    /// Memory limit of the SDK server of each game server; 0 for none
    #[arg(long, value_name = "QUANTITY", env = "SIDECAR_MEMORY_LIMIT", hide_env_values = true, value_parser = amount)]
    pub(crate) sidecar_memory_limit: Option<Quantity>,
}

/// A range of host ports with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    pub(crate) name: String,
    pub(crate) ports: RangeInclusive<u16>,
}

/// Ranges by name.
#[derive(Clone, Debug)]
pub(crate) struct AdditionalRanges(pub(crate) BTreeMap<String, RangeInclusive<u16>>);

fn port_range(text: &str) -> Result<PortRange, String> {
    let (name, ports) = text.split_once('=').unwrap_or((DEFAULT_RANGE, text));
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 63 || !name.chars().all(is_label) {
        return Err(format!("`{name}` is not the name of a range; use a-z, 0-9 and -"));
    }
    let ends = ports.split_once('-').and_then(|(min, max)| {
        Some((min.trim().parse::<u16>().ok()?, max.trim().parse::<u16>().ok()?))
    });
    let (min, max) =
        ends.ok_or("expected MIN-MAX or NAME=MIN-MAX, like 7000-8000 or game=9000-9100")?;
    Ok(PortRange { name: name.to_owned(), ports: min..=max })
}

fn additional_ranges(text: &str) -> Result<AdditionalRanges, String> {
    let ranges = if text.trim().is_empty() { "{}" } else { text };
    let ranges: BTreeMap<String, [u16; 2]> = serde_json::from_str(ranges)
        .map_err(|err| format!("expected JSON like {{\"game\": [9000, 9100]}}: {err}"))?;
    let ranges = ranges.into_iter().map(|(name, [min, max])| (name, min..=max));
    Ok(AdditionalRanges(ranges.collect()))
}

/// Parses an amount; an empty variable is none.
fn amount(text: &str) -> Result<Quantity, String> {
    if text.is_empty() {
        return Ok(Quantity::default());
    }
    match Quantity::parse_with_hint(text)? {
        amount if amount.is_negative() => Err("must not be negative".to_owned()),
        amount => Ok(amount),
    }
}
