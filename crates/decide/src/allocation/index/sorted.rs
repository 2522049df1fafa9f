//! A sorted collection of names with access to the n-th one.
//!
//! Names are stored in blocks of a few hundred: a lookup searches among blocks and then within one, and access to the n-th skips
//! whole blocks. That takes a few hundred cheap steps for a hundred thousand names.

use std::sync::Arc;

/// A block that reaches this size is split.
const MOST: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Sorted {
    blocks: Vec<Vec<(Arc<str>, usize)>>,
    len: usize,
}

impl Sorted {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the value of the n-th name.
    pub(super) fn get(&self, mut nth: usize) -> Option<usize> {
        for block in &self.blocks {
            if nth < block.len() {
                return Some(block[nth].1);
            }
            nth -= block.len();
        }
        None
    }

    pub(super) fn insert(&mut self, name: &Arc<str>, value: usize) {
        let at = self.block(name, value).min(self.blocks.len().saturating_sub(1));
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let block = &mut self.blocks[at];
        if let Err(place) = search(block, name, value) {
            block.insert(place, (Arc::clone(name), value));
            self.len += 1;
        }
        if block.len() > MOST {
            let back = block.split_off(MOST / 2);
            self.blocks.insert(at + 1, back);
        }
    }

    pub(super) fn remove(&mut self, name: &Arc<str>, value: usize) {
        let at = self.block(name, value);
        let Some(block) = self.blocks.get_mut(at) else { return };
        if let Ok(place) = search(block, name, value) {
            block.remove(place);
            self.len -= 1;
        }
        if block.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// Finds the first block whose last name is not before the given one.
    fn block(&self, name: &str, value: usize) -> usize {
        self.blocks.partition_point(|block| {
            block.last().is_some_and(|(last, at)| (&**last, *at) < (name, value))
        })
    }
}

fn search(block: &[(Arc<str>, usize)], name: &str, value: usize) -> Result<usize, usize> {
    block.binary_search_by(|(other, at)| (&**other, *at).cmp(&(name, value)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn access_by_position_equals_that_of_a_sorted_set(
            changes in proptest::collection::vec((any::<bool>(), 0..2000_usize), 1..3000)
        ) {
            let (mut sorted, mut plain) = (Sorted::default(), BTreeSet::new());
            for (add, number) in changes {
                let name: Arc<str> = format!("{number:04}").into();
                if add {
                    sorted.insert(&name, number);
                    plain.insert(number);
                } else {
                    sorted.remove(&name, number);
                    plain.remove(&number);
                }
            }
            let in_order: Vec<usize> = (0..sorted.len()).filter_map(|n| sorted.get(n)).collect();
            prop_assert_eq!(in_order, plain.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(sorted.get(sorted.len()), None);
        }
    }
}
