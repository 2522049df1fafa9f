//! What `FEATURE_GATES` says: which of Agones' features someone wants on or off.
//!
//! All features are on here. The variable is read so that nobody is left to believe otherwise: a gate that does not exist is an error, and
//! one that was turned off is said.

use std::collections::BTreeMap;
use std::fmt;

/// Agones' feature gates, and whether each can be told from being off: some stand for things that have no effect here.
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

/// What someone said about feature gates. `Display` gives the form that is passed on to SDK servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    said: BTreeMap<&'static str, bool>,
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
        let mut said = BTreeMap::new();
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
            said.insert(*known, is_on);
        }
        Ok(Self { said })
    }

    /// Names the gates that someone turned off, though all features are on.
    pub fn off(&self) -> impl Iterator<Item = &'static str> {
        self.said.iter().filter(|(_, is_on)| !**is_on).map(|(name, _)| *name)
    }

    /// Says which gates were turned off in vain.
    pub fn warn(&self) {
        for gate in self.off() {
            tracing::warn!(
                gate,
                "FEATURE_GATES turns a feature off that is always on; nothing changes"
            );
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
    fn sdk_servers_are_told_that_everything_is_on() {
        let gates = FeatureGates::parse("CountsAndLists=false").unwrap();
        let told = FeatureGates::parse(&gates.to_string()).unwrap();
        assert_eq!((told.off().count(), told.said.len()), (0, KNOWN.len()));
    }
}
