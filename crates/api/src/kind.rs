//! A kind as both engines and `evaluate` use it: its names, its CRD and its admission.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::Problem;

/// A kind that Plimsoll defines, for engines and `evaluate`.
pub struct Kind {
    /// The API group, such as `agones.dev`.
    pub group: &'static str,
    /// The served version, such as `v1`.
    pub version: &'static str,
    /// The name in `kind:`.
    pub kind: &'static str,
    /// The name in URLs.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub scope: Scope,
    /// Makes the CRD; absent for a kind that is never stored.
    pub crd: Option<fn() -> CustomResourceDefinition>,
    /// Removes unset fields from an object: the empty strings that Go clients write for them, and a status that is written
    /// separately. It never fails, and `admit` begins with it.
    pub prepare: fn(&mut Value, &Admission<'_>),
    /// Does what the mutating and validating webhooks of a cluster would do: converts dialects, fills in defaults, and
    /// validates. On an error the object is unusable, and nothing may be stored. It comes before the CRD's
    /// schema, which would prune the fields that only a dialect has.
    pub admit: fn(&mut Value, &Admission<'_>) -> Result<(), Vec<Problem>>,
}

impl Kind {
    /// Whether the webhooks also admit updates. A game server is written at each change of its state, and none of these writes is sent
    /// to a webhook: upstream's webhooks admit only its creation.
    pub fn asks_about_changes(&self) -> bool {
        self.kind != "GameServer"
    }
}

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// They do.
    Namespaced,
    /// They do not.
    Cluster,
}

/// The context of admission besides the object.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// The object that is stored now; `None` when it is new.
    pub old: Option<&'a Value>,
    /// The time of the request.
    pub now: Timestamp,
}
