//! Taints and tolerations.

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty with `exists`: every key.
    pub key: Box<str>,
    /// The operator: `Exists` (any value) or, if false, `Equal`.
    pub exists: bool,
    pub value: Box<str>,
    /// None: every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Returns whether it tolerates `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() && self.exists || self.key == taint.key)
            && (self.exists || self.value == taint.value)
    }
}

impl Taint {
    /// Returns whether the scheduler keeps pods away because of it.
    pub fn keeps_away(&self) -> bool {
        self.effect != Effect::PreferNoSchedule
    }

    /// Returns whether one of `tolerations` tolerates it.
    pub fn tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_matches_key_value_and_effect() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: Effect::NoSchedule };
        for (key, exists, value, effect, tolerates) in [
            ("k", false, "v", None, true),
            ("k", false, "w", None, false),
            ("k", false, "", None, false),
            ("k", true, "", None, true),
            ("j", true, "", None, false),
            ("", true, "", None, true),
            ("", false, "v", None, false),
            ("k", true, "", Some(Effect::NoSchedule), true),
            ("k", true, "", Some(Effect::NoExecute), false),
        ] {
            let toleration = Toleration { key: key.into(), exists, value: value.into(), effect };
            assert_eq!(toleration.tolerates(&taint), tolerates, "{toleration:?}");
        }
    }
}
