//! The same stories on both engines, with controllers that live on and with controllers that die at random requests.

use crate::cluster::Cluster;
use crate::{fleets, servers};

/// Makes four tests of each story.
macro_rules! stories {
    ($($module:ident :: $story:ident),* $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let mut cluster = super::Cluster::embedded().await;
                    cluster.control();
                    super::$module::$story(&mut cluster).await;
                }
            )*
        }

        mod embedded_with_deaths {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let mut cluster = super::Cluster::embedded().await;
                    cluster.control_mortally(fastrand::u64(..));
                    super::$module::$story(&mut cluster).await;
                }
            )*
        }

        mod real {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let Some(mut cluster) = super::Cluster::real().await else { return };
                    cluster.control();
                    super::$module::$story(&mut cluster).await;
                    cluster.end().await;
                }
            )*
        }

        mod real_with_deaths {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let Some(mut cluster) = super::Cluster::real().await else { return };
                    cluster.control_mortally(fastrand::u64(..));
                    super::$module::$story(&mut cluster).await;
                    cluster.end().await;
                }
            )*
        }
    };
}

stories! {
    servers::a_server_gets_a_pod_a_port_and_an_address_and_becomes_ready,
    servers::a_deleted_server_is_removed_after_its_pod,
    servers::a_server_whose_pod_fails_or_is_deleted_is_unhealthy,
    servers::a_server_whose_pod_succeeds_is_deleted,
    servers::an_unhealthy_server_stays_so_when_its_pod_then_ends_well,
    servers::a_server_whose_pod_is_being_deleted_is_not_allocated,
    servers::a_server_whose_port_a_stranger_has_gets_another,
    servers::a_server_in_development_is_ready_at_its_address_without_a_pod,
    servers::a_server_whose_pod_is_refused_reports_the_reason,
    fleets::a_fleet_is_filled_grows_and_shrinks_in_order,
    fleets::a_rolling_update_replaces_servers_and_keeps_those_in_use,
    fleets::recreate_replaces_all_but_those_in_use,
    fleets::lost_servers_are_replaced,
    fleets::the_servers_of_a_lost_node_are_replaced,
    fleets::allocated_servers_that_are_too_many_are_marked,
    fleets::a_deleted_fleet_leaves_nothing,
}
