//! What both engines and `evaluate` know of a kind: its names, its CRD and its admission.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::Problem;

/// A kind that Plimsoll brings along, as both engines and `evaluate` see it.
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
    /// Takes out of an object what its sender did not mean to say: the empty texts that Go clients write for fields that nobody set,
    /// and a status that is written apart. It never fails, and `admit` begins with it.
    pub prepare: fn(&mut Value, &Admission<'_>),
    /// Does to an object what the mutating and validating webhooks of a cluster would do: settles dialects, fills in
    /// defaults, and checks. On an error the object is unusable, and nothing may be stored. It comes before the CRD's
    /// schema has its say, which would prune the fields that only a dialect has.
    pub admit: fn(&mut Value, &Admission<'_>) -> Result<(), Vec<Problem>>,
}

impl Kind {
    /// Whether an API server asks about changed objects, too. Every state of a game server is a write, and none of them is asked
    /// about: upstream's webhooks look at its creation only.
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

/// What admission may look at besides the object.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    /// The object that is stored now; `None` when it is new.
    pub old: Option<&'a Value>,
    /// The time of the request.
    pub now: Timestamp,
}
