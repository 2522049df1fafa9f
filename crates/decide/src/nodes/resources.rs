//! Resource amounts of pods and nodes.

/// Amounts by resource. Unnamed resources are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// In millicores.
    pub cpu: i64,
    /// In bytes.
    pub memory: i64,
    /// In bytes.
    pub ephemeral_storage: i64,
    /// The maximum number of pods on a node; 0 in a request.
    pub pods: i64,
    /// Every other resource (GPUs, huge pages, …), in whole units, sorted by name.
    pub other: Box<[(Box<str>, i64)]>,
}

impl Resources {
    /// Returns the amount of a resource by its Kubernetes name, `cpu` in millicores.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            "pods" => self.pods,
            _ => self.other.iter().find(|(n, _)| &**n == name).map_or(0, |(_, amount)| *amount),
        }
    }

    /// Sets the amount of a resource by its Kubernetes name, `cpu` in millicores.
    pub fn set(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.cpu = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.ephemeral_storage = amount,
            "pods" => self.pods = amount,
            _ => {
                let mut other: Vec<_> = std::mem::take(&mut self.other).into_vec();
                match other.binary_search_by(|(n, _)| (**n).cmp(name)) {
                    Ok(at) => other[at].1 = amount,
                    Err(at) => other.insert(at, (name.into(), amount)),
                }
                self.other = other.into_boxed_slice();
            }
        }
    }

    /// Iterates over all non-zero resources, by Kubernetes name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let known = [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.ephemeral_storage),
            ("pods", self.pods),
        ];
        let other = self.other.iter().map(|(name, amount)| (&**name, *amount));
        known.into_iter().chain(other).filter(|(_, amount)| *amount != 0)
    }

    /// Returns whether there is a GPU.
    pub fn has_gpu(&self) -> bool {
        super::GPU_RESOURCES.iter().any(|name| self.get(name) > 0)
    }
}

/// Collects amounts; the last of several for one name wins.
impl<'a> FromIterator<(&'a str, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (&'a str, i64)>>(amounts: I) -> Self {
        let mut all = Self::default();
        amounts.into_iter().for_each(|(name, amount)| all.set(name, amount));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_found_by_the_name_it_was_set_with() {
        let names = ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "a/b"];
        let all: Resources = names.iter().zip(1..).map(|(name, amount)| (*name, amount)).collect();
        for (name, amount) in names.iter().zip(1..) {
            assert_eq!(all.get(name), amount, "{name}");
        }
        assert_eq!(all.get("a/c"), 0);
        assert_eq!(all.iter().count(), names.len());
        assert!(all.has_gpu());
    }
}
