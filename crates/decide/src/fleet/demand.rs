//! Counts the pods of a set that are still to come, so that their nodes can be requested before there is a pod.
//!
//! A server or pod never counts twice. Where one cache is behind another, fewer pods are counted rather than more.

use crate::gameserver::State;

/// A game server of a set, as far as its pod matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedServer {
    /// Its state.
    pub state: State,
    /// Whether it is marked for deletion.
    pub has_deletion_timestamp: bool,
    /// Whether its set replaces it, because its node is being emptied.
    pub is_evacuating: bool,
    /// Whether its pod exists.
    pub has_pod: bool,
}

impl CountedServer {
    fn is_being_deleted(&self) -> bool {
        self.has_deletion_timestamp || self.state == State::Shutdown
    }

    /// Returns whether its set counts it as one of its replicas. A failed one counts until it is deleted.
    fn is_replica(&self) -> bool {
        !self.is_being_deleted() && (!self.is_evacuating || self.state.is_in_use())
    }

    /// Returns whether its pod will be created.
    fn lacks_pod(&self) -> bool {
        !self.is_being_deleted() && !self.has_pod && self.state.is_before_pod()
    }
}

/// Returns how many pods are still to come for a set of `replicas` servers: those of servers that do not exist yet, and those that
/// existing servers do not have yet. `unknown_pods` exist already, for servers that are not known yet.
pub fn pods_to_come(replicas: i32, servers: &[CountedServer], unknown_pods: usize) -> usize {
    let wanted = usize::try_from(replicas).unwrap_or(0);
    let replicas = servers.iter().filter(|server| server.is_replica()).count();
    let missing = wanted.saturating_sub(replicas + unknown_pods);
    missing + servers.iter().filter(|server| server.lacks_pod()).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server(state: State, has_pod: bool) -> CountedServer {
        CountedServer { state, has_deletion_timestamp: false, is_evacuating: false, has_pod }
    }

    #[test]
    fn each_server_counts_once_as_long_as_it_has_no_pod() {
        use State::{Allocated, Creating, Error, PortAllocation, Ready, Shutdown, Unhealthy};
        let marked = |state| CountedServer { is_evacuating: true, ..server(state, true) };
        let deleted = CountedServer { has_deletion_timestamp: true, ..server(Creating, false) };
        for (what, replicas, servers, unknown_pods, wanted) in [
            ("a new set", 3, vec![], 0, 3),
            ("servers without pods", 2, vec![server(PortAllocation, false); 2], 0, 2),
            ("with pods", 2, vec![server(Creating, true); 2], 0, 0),
            ("more are to come", 4, vec![server(Ready, true), server(Creating, false)], 0, 3),
            ("a pod came before its server", 3, vec![server(Ready, true)], 1, 1),
            ("more pods than replicas", 1, vec![server(Ready, true)], 4, 0),
            ("being deleted", 1, vec![deleted, server(Shutdown, true)], 0, 1),
            ("too many", 1, vec![server(Ready, true); 3], 0, 0),
            ("failed ones count until they are deleted", 2, vec![server(Unhealthy, true)], 0, 1),
            ("no pod will come", 1, vec![server(Error, false)], 0, 0),
            ("on a node that is emptied", 2, vec![marked(Ready), server(Ready, true)], 0, 1),
            ("allocated in between", 2, vec![marked(Allocated), server(Ready, true)], 0, 0),
            ("none", -1, vec![], 0, 0),
        ] {
            assert_eq!(pods_to_come(replicas, &servers, unknown_pods), wanted, "{what}");
        }
    }

    fn any_server() -> impl Strategy<Value = CountedServer> {
        let state = proptest::sample::select(State::NAMED.to_vec());
        (state, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(state, has_deletion_timestamp, is_evacuating, has_pod)| CountedServer {
                state,
                has_deletion_timestamp,
                is_evacuating,
                has_pod,
            },
        )
    }

    proptest! {
        /// Whatever of a growing set has been observed, at most `replicas` servers and pods are counted.
        #[test]
        fn a_cache_that_lags_counts_less(
            replicas in 0..20_usize,
            servers_seen in 0..20_usize,
            pods_seen in 0..20_usize,
        ) {
            let (servers_seen, pods_seen) = (servers_seen.min(replicas), pods_seen.min(replicas));
            let servers: Vec<_> = (0..servers_seen)
                .map(|n| server(State::Creating, n < pods_seen))
                .collect();
            let unknown_pods = pods_seen.saturating_sub(servers_seen);
            let come = pods_to_come(i32::try_from(replicas).unwrap(), &servers, unknown_pods);
            prop_assert!(come + pods_seen <= replicas);
        }

        #[test]
        fn a_pod_that_is_observed_never_adds_demand(
            replicas in 0..20_i32,
            servers in proptest::collection::vec(any_server(), 0..20),
            unknown_pods in 0..5_usize,
        ) {
            let before = pods_to_come(replicas, &servers, unknown_pods);
            prop_assert!(pods_to_come(replicas, &servers, unknown_pods + 1) <= before);
            for index in 0..servers.len() {
                let mut seen = servers.clone();
                seen[index].has_pod = true;
                prop_assert!(pods_to_come(replicas, &seen, unknown_pods) <= before);
            }
        }
    }
}
