//! Agones' feature gates, as `FEATURE_GATES` sets them.
//!
//! All features are always on. The variable is still read, so that an unknown gate is an error and a gate that is turned off is logged.

use std::collections::BTreeMap;
use std::fmt;

/// The names of Agones' feature gates.
const KNOWN: [&str; 15] = [
    "AutopilotPassthroughPort",
    "CountsAndLists",
    "DisableResyncOnSDKServer",
    "Example",
    "FleetAutoscaleRequestMetaData",
    "GKEAutopilotExtendedDurationPods",
    "PlayerAllocationFilter",
    "PlayerTracking",
    "PortPolicyNone",
    "PortRanges",
    "ProcessorAllocator",
    "RollingUpdateFix",
    "ScheduledAutoscaler",
    "SidecarContainers",
    "WasmAutoscaler",
];

/// Feature gates as they were set. `Display` formats them for SDK servers, all on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    set: BTreeMap<&'static str, bool>,
}

/// Why `FEATURE_GATES` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is no such gate.
    #[error("FEATURE_GATES: there is no gate `{name}`; expected one of {}", KNOWN.join(", "))]
    Unknown {
        /// What was written.
        name: String,
    },
    /// A gate is neither on nor off.
    #[error("FEATURE_GATES: expected `{name}=true` or `{name}=false`, found `{name}={value}`")]
    NotABool {
        /// The gate.
        name: String,
        /// What was written.
        value: String,
    },
}

impl FeatureGates {
    /// Reads the form of a URL's query: `A=true&B=false`.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let mut set = BTreeMap::new();
        for part in text.split('&').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let known = KNOWN.iter().find(|known| **known == name);
            let known = known.ok_or_else(|| GateError::Unknown { name: name.to_owned() })?;
            let is_on = match value {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
                "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
                _ => {
                    let (name, value) = (name.to_owned(), value.to_owned());
                    return Err(GateError::NotABool { name, value });
                }
            };
            set.insert(*known, is_on);
        }
        Ok(Self { set })
    }

    /// Returns the gates that were turned off, though all features are on.
    pub fn off(&self) -> impl Iterator<Item = &'static str> {
        self.set.iter().filter(|(_, is_on)| !**is_on).map(|(name, _)| *name)
    }

    /// Logs the gates that were turned off, which has no effect.
    pub fn warn(&self) {
        for gate in self.off() {
            tracing::warn!(gate, "FEATURE_GATES turns off a feature that is always on; ignored");
        }
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in KNOWN.iter().enumerate() {
            let separator = if index == 0 { "" } else { "&" };
            write!(f, "{separator}{name}=true")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_that_are_off_are_named() {
        let gates = FeatureGates::parse("PlayerTracking=true&CountsAndLists=false&Example=0");
        let off: Vec<_> = gates.unwrap().off().map(str::to_owned).collect();
        assert_eq!(off, ["CountsAndLists", "Example"]);
        assert_eq!(FeatureGates::parse(""), Ok(FeatureGates::default()));
    }

    #[test]
    fn a_gate_that_does_not_exist_is_an_error() {
        let error = FeatureGates::parse("CountAndLists=true").unwrap_err();
        assert!(error.to_string().contains("there is no gate `CountAndLists`"), "{error}");
        let error = FeatureGates::parse("Example=yes").unwrap_err();
        assert!(error.to_string().contains("expected `Example=true`"), "{error}");
    }

    #[test]
    fn sdk_servers_get_all_features_on() {
        let gates = FeatureGates::parse("CountsAndLists=false").unwrap();
        let parsed = FeatureGates::parse(&gates.to_string()).unwrap();
        assert_eq!((parsed.off().count(), parsed.set.len()), (0, KNOWN.len()));
    }
}
