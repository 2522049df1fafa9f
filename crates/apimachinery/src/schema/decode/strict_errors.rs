//! Collects strict decoding errors, within limits.

/// The most errors that are kept, as in kube-apiserver.
const MOST: usize = 100;
/// The most bytes of errors that are formatted, including duplicates. A path can be as long as a document and occur as often as
/// the document has members.
const MOST_BYTES: usize = 1 << 20;

/// The first strict decoding errors, without duplicates.
#[derive(Debug, Default)]
pub struct StrictErrors {
    list: Vec<String>,
    written: usize,
}

impl StrictErrors {
    /// Adds an error. It is not even formatted once a limit is reached.
    pub fn add(&mut self, error: impl FnOnce() -> String) {
        if self.list.len() >= MOST || self.written >= MOST_BYTES {
            return;
        }
        let error = error();
        self.written += error.len();
        if !self.list.contains(&error) {
            self.list.push(error);
        }
    }

    /// Adds errors that are already formatted.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = String>) {
        errors.into_iter().for_each(|error| self.add(|| error));
    }

    /// Returns the errors in the order in which they were added.
    pub fn into_vec(self) -> Vec<String> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_deduplicated_and_limited() {
        let mut errors = StrictErrors::default();
        errors.extend(["a", "b", "a"].map(str::to_owned));
        errors.extend((0..1000).map(|n| n.to_string()));
        let kept = errors.into_vec();
        assert_eq!((kept.len(), &kept[..3]), (MOST, &["a", "b", "0"].map(str::to_owned)[..]));
    }

    #[test]
    fn the_formatted_bytes_are_limited() {
        let (mut errors, long) = (StrictErrors::default(), "x".repeat(MOST_BYTES / 4));
        let mut written = 0;
        for _ in 0..1000 {
            errors.add(|| {
                written += 1;
                long.clone()
            });
        }
        assert_eq!((written, errors.into_vec().len()), (4, 1));
    }
}
