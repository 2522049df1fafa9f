//! The meaning of arguments: host ports and sidecar resources of game servers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use api::quantity::Quantity;
use control::Settings;
use serde_json::{Map, Value, json};

use crate::args::{DEFAULT_RANGE, GameServerArgs, usage};

/// Returns default settings with the host ports and sidecar resources of the arguments. Exits with code 2 if these do not fit together.
pub(crate) fn game_servers(args: &GameServerArgs) -> Settings {
    let mut settings = Settings::default();
    settings.port_ranges =
        port_ranges(args, &settings.port_ranges).unwrap_or_else(|message| usage(&message));
    settings.sidecar.resources = resources(args).unwrap_or_else(|message| usage(&message));
    settings
}

/// The host ports of game servers, by the name of their range.
type PortRanges = BTreeMap<String, RangeInclusive<u16>>;

/// Returns the ranges of Agones' settings, replaced and completed by those of `--port-range`.
fn port_ranges(args: &GameServerArgs, defaults: &PortRanges) -> Result<PortRanges, String> {
    let mut ranges = defaults.clone();
    if let Some(default) = ranges.get_mut(DEFAULT_RANGE) {
        let (min, max) = (*default.start(), *default.end());
        *default = args.min_port.unwrap_or(min)..=args.max_port.unwrap_or(max);
    }
    ranges.extend(args.additional_port_ranges.iter().flat_map(|additional| additional.0.clone()));
    let mut given = BTreeMap::new();
    for range in &args.port_ranges {
        if given.insert(range.name.clone(), range.ports.clone()).is_some() {
            return Err(format!("--port-range: range `{}` is given twice", range.name));
        }
    }
    ranges.extend(given);
    check(&ranges)?;
    Ok(ranges)
}

/// Refuses ranges without ports, and ranges that share ports.
fn check(ranges: &PortRanges) -> Result<(), String> {
    let mut by_start: Vec<(&String, &RangeInclusive<u16>)> = ranges.iter().collect();
    by_start.sort_by_key(|(_, ports)| *ports.start());
    for (name, ports) in &by_start {
        let (min, max) = (ports.start(), ports.end());
        if min > max {
            return Err(format!("port range `{name}`: {min} is greater than {max}"));
        }
        if *min == 0 {
            return Err(format!("port range `{name}`: port 0 cannot be used"));
        }
    }
    for pair in by_start.windows(2) {
        let [(first, low), (second, high)] = pair else { continue };
        if high.start() <= low.end() {
            return Err(format!(
                "port ranges `{first}` ({}-{}) and `{second}` ({}-{}) overlap",
                low.start(),
                low.end(),
                high.start(),
                high.end(),
            ));
        }
    }
    Ok(())
}

/// Returns the `resources` of the SDK server's container; null if there are none.
fn resources(args: &GameServerArgs) -> Result<Value, String> {
    let mut requests = Map::new();
    let mut limits = Map::new();
    for (name, request, limit) in [
        ("cpu", args.sidecar_cpu_request, args.sidecar_cpu_limit),
        ("memory", args.sidecar_memory_request, args.sidecar_memory_limit),
    ] {
        let is_set = |amount: &Quantity| !amount.is_zero();
        let (request, limit) = (request.filter(is_set), limit.filter(is_set));
        if let (Some(request), Some(limit)) = (request, limit)
            && request > limit
        {
            return Err(format!(
                "--sidecar-{name}-request {request} is greater than --sidecar-{name}-limit {limit}"
            ));
        }
        requests.extend(request.map(|amount| (name.to_owned(), json!(amount.to_string()))));
        limits.extend(limit.map(|amount| (name.to_owned(), json!(amount.to_string()))));
    }
    let mut resources = Map::new();
    for (name, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty() {
            resources.insert(name.to_owned(), Value::Object(amounts));
        }
    }
    Ok(if resources.is_empty() { Value::Null } else { Value::Object(resources) })
}

/// Returns the arguments that have the same meaning for another process.
pub(crate) fn game_server_args(settings: &Settings) -> Vec<String> {
    let ranges = settings.port_ranges.iter();
    let range = |(name, ports): (&String, &RangeInclusive<u16>)| {
        format!("--port-range={name}={}-{}", ports.start(), ports.end())
    };
    let mut args: Vec<String> = ranges.map(range).collect();
    for (field, flag) in [("requests", "request"), ("limits", "limit")] {
        for (name, amount) in settings.sidecar.resources[field].as_object().into_iter().flatten() {
            let amount = amount.as_str().unwrap_or_default();
            args.push(format!("--sidecar-{name}-{flag}={amount}"));
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: GameServerArgs,
    }

    fn parsed(flags: &[&str]) -> Result<PortRanges, String> {
        let only = Only::try_parse_from(["test"].iter().chain(flags)).map_err(|e| e.to_string())?;
        port_ranges(&only.args, &Settings::default().port_ranges)
    }

    #[test]
    fn ranges_come_from_flags_and_from_agones_settings() {
        let named = |name: &str, ports| (name.to_owned(), ports);
        for (flags, expected) in [
            (&[][..], vec![named("default", 7000..=8000)]),
            (&["--port-range", "9000-9100"], vec![named("default", 9000..=9100)]),
            (&["--port-range", "default=9000-9000"], vec![named("default", 9000..=9000)]),
            (
                &["--port-range", "game=9000-9100", "--port-range", "7000-7010"],
                vec![named("default", 7000..=7010), named("game", 9000..=9100)],
            ),
            (
                &[
                    "--min-port=6000",
                    "--max-port=6100",
                    "--additional-port-ranges",
                    "{\"game\":[7000,7100]}",
                ],
                vec![named("default", 6000..=6100), named("game", 7000..=7100)],
            ),
            (
                &["--additional-port-ranges={\"game\":[1,2]}", "--port-range=game=9000-9100"],
                vec![named("default", 7000..=8000), named("game", 9000..=9100)],
            ),
            (&["--additional-port-ranges="], vec![named("default", 7000..=8000)]),
        ] {
            assert_eq!(parsed(flags), Ok(expected.into_iter().collect()), "{flags:?}");
        }
    }

    #[test]
    fn ranges_that_cannot_work_are_refused() {
        for (flags, why) in [
            (&["--port-range=8000-7000"][..], "port range `default`: 8000 is greater than 7000"),
            (&["--port-range=0-10"], "port range `default`: port 0 cannot be used"),
            (
                &["--port-range=game=8000-8100"],
                "port ranges `default` (7000-8000) and `game` (8000-8100) overlap",
            ),
            (&["--port-range=a=1-2", "--port-range=a=3-4"], "range `a` is given twice"),
            (&["--min-port=9000"], "port range `default`: 9000 is greater than 8000"),
            (&["--port-range=7000"], "expected MIN-MAX"),
            (&["--port-range=1-70000"], "expected MIN-MAX"),
            (&["--port-range=Big Game=1-2"], "not the name of a range"),
            (&["--additional-port-ranges={\"game\":[1]}"], "expected JSON like"),
        ] {
            let refused = parsed(flags).unwrap_err();
            assert!(refused.contains(why), "{flags:?}: {refused}");
        }
    }

    #[test]
    fn sidecar_resources_become_those_of_a_container() {
        let parsed = |flags: &[&str]| {
            resources(&Only::try_parse_from(["test"].iter().chain(flags)).unwrap().args)
        };
        assert_eq!(parsed(&[]), Ok(Value::Null));
        assert_eq!(parsed(&["--sidecar-cpu-limit=0"]), Ok(Value::Null));
        let some = parsed(&[
            "--sidecar-cpu-request=30m",
            "--sidecar-cpu-limit=1",
            "--sidecar-memory-limit=64Mi",
        ]);
        assert_eq!(
            some,
            Ok(json!({"requests": {"cpu": "30m"}, "limits": {"cpu": "1", "memory": "64Mi"}}))
        );
        let refused = parsed(&["--sidecar-memory-request=2Gi", "--sidecar-memory-limit=1Gi"]);
        assert_eq!(
            refused,
            Err("--sidecar-memory-request 2Gi is greater than --sidecar-memory-limit 1Gi"
                .to_owned())
        );
        assert!(Only::try_parse_from(["test", "--sidecar-cpu-limit=many"]).is_err());
    }

    #[test]
    fn arguments_for_another_process_have_the_same_meaning() {
        let flags =
            ["--port-range=9000-9100", "--port-range=game=6000-6001", "--sidecar-cpu-limit=1"];
        let first =
            game_servers(&Only::try_parse_from(["test"].iter().chain(&flags)).unwrap().args);
        let printed = game_server_args(&first);
        let args = std::iter::once("test".to_owned()).chain(printed.iter().cloned());
        let second = game_servers(&Only::try_parse_from(args).unwrap().args);
        assert_eq!(first.port_ranges, second.port_ranges, "{printed:?}");
        assert_eq!(first.sidecar.resources, second.sidecar.resources, "{printed:?}");
    }
}
