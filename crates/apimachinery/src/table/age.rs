//! Formats ages as kubectl does.

use jiff::Timestamp;
use serde_json::Value;

/// Formats the time since a timestamp of an object.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match moment(time) {
        Some(then) => human(
            now.as_second()
                - then.as_second()
                - i64::from(now.subsec_nanosecond() < then.subsec_nanosecond()),
        ),
        None => "<unknown>".into(),
    }
}

/// Parses a timestamp of an object.
pub(super) fn moment(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

/// Formats a number of seconds with its two largest units.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{rest}"),
    };
    // This machine's clock may be a second behind the one that wrote the time.
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_as_in_kubectl() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (8 * 3600, "8h"),
            (172_800, "2d"),
            (172_800 + 7200, "2d2h"),
            (8 * 86_400, "8d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (2920 * 86_400, "8y"),
        ] {
            assert_eq!(human(seconds), shown, "{seconds}");
        }
    }
}
