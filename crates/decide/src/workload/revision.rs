//! The revisions of templates, and the old ones to delete.

use super::rollout::SetSize;

/// The longest annotation of earlier revisions.
const LONGEST_HISTORY: usize = 2000;

/// Returns the revision of the present template, from those of the other sets; `present` is the one it has.
pub fn next_revision(others: impl IntoIterator<Item = u64>, present: Option<u64>) -> u64 {
    let next = others.into_iter().max().unwrap_or_default().saturating_add(1);
    present.map_or(next, |present| present.max(next))
}

/// Returns the annotation of earlier revisions of a set that gets a new one, oldest first; the oldest are dropped when it is too long.
pub fn revision_history(earlier: &str, replaced: u64) -> String {
    let replaced = replaced.to_string();
    let mut kept: Vec<&str> = earlier.split(',').filter(|revision| !revision.is_empty()).collect();
    kept.push(&replaced);
    while kept.len() > 1
        && kept.iter().map(|revision| revision.len() + 1).sum::<usize>() > LONGEST_HISTORY
    {
        kept.remove(0);
    }
    kept.join(",")
}

/// Returns the old sets beyond the history limit, by revision; one that still has pods, or whose status is out of date, is kept.
pub fn expired_sets<'a>(
    old: impl IntoIterator<Item = (u64, &'a SetSize, bool)>,
    limit: Option<i32>,
) -> Vec<&'a str> {
    let mut old: Vec<_> = old.into_iter().collect();
    let limit = limit.filter(|limit| *limit != i32::MAX);
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or_default());
    let excess = old.len().saturating_sub(limit);
    old.sort_by_key(|(revision, set, _)| (*revision, set.created_at));
    let expired = old.into_iter().take(excess);
    let empty = expired
        .filter(|(_, set, is_observed)| *is_observed && set.replicas == 0 && set.actual == 0);
    empty.map(|(_, set, _)| set.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::set;

    #[test]
    fn a_template_that_comes_back_gets_the_next_revision() {
        for (others, present, expected) in [
            (vec![], None, 1),
            (vec![1, 2], None, 3),
            (vec![2, 3], Some(1), 4),
            (vec![1], Some(2), 2),
        ] {
            assert_eq!(next_revision(others, present), expected);
        }
        assert_eq!(revision_history("", 1), "1");
        assert_eq!(revision_history("1", 4), "1,4");
        assert!(revision_history(&"123,".repeat(600), 9).len() <= LONGEST_HISTORY);
    }

    #[test]
    fn the_oldest_revisions_without_pods_expire() {
        let (a, b, c) = (set("a", 0), set("b", 0), set("c", 0));
        let old = || [(3, &a, true), (1, &b, true), (2, &c, true)];
        assert_eq!(expired_sets(old(), Some(2)), ["b"]);
        assert_eq!(expired_sets(old(), Some(0)), ["b", "c", "a"]);
        assert!(expired_sets(old(), None).is_empty());
        let busy = set("d", 1);
        assert!(expired_sets([(1, &busy, true), (2, &a, true)], Some(1)).is_empty());
        assert!(expired_sets([(1, &b, false), (2, &a, true)], Some(1)).is_empty());
    }
}
