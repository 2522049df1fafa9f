//! The stories, each on the embedded engine and on a real API server.

use super::{Stage, blockers, budgets, growing, removals, shrinking, trouble};

macro_rules! stories {
    ($($module:ident::$story:ident,)*) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    super::$module::$story(super::Stage::Embedded).await;
                }
            )*
        }

        mod real {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    super::$module::$story(super::Stage::Real).await;
                }
            )*
        }
    };
}

stories! {
    growing::pods_get_nodes_from_zero_and_reasons_are_reported,
    growing::pods_of_a_bypassed_scheduler_get_nodes_at_once,
    growing::the_expander_chooses_the_group,
    growing::new_nodes_are_distributed_over_similar_groups,
    growing::limits_hold_and_waiting_pods_get_events,
    growing::a_group_without_machines_is_backed_off_and_the_next_best_grows,
    growing::machines_that_fail_to_start_are_given_up,
    growing::machines_that_do_not_appear_in_time_are_cancelled,
    shrinking::empty_nodes_are_removed_but_never_below_the_minimum,
    shrinking::a_node_is_drained_within_its_budgets,
    shrinking::pods_that_nothing_would_replace_keep_their_node,
    shrinking::a_node_with_a_pod_that_cannot_be_decoded_stays,
    shrinking::a_restart_in_the_middle_of_a_removal_leaves_no_taint,
    shrinking::controllers_that_die_at_any_request_leave_no_taint_and_keep_the_minimum,
    blockers::every_kind_of_pod_that_blocks_keeps_its_node,
    blockers::a_new_system_pod_keeps_its_node_for_a_while,
    blockers::game_servers_in_use_keep_their_nodes,
    blockers::a_game_server_that_arrives_ends_a_removal,
    blockers::an_allocated_game_server_keeps_its_node,
    budgets::the_budgets_of_all_pods_of_a_node_are_respected,
    budgets::a_pod_that_two_budgets_select_stays,
    removals::a_deletion_waits_for_annotations_and_its_node_is_cordoned,
    removals::nodes_of_a_group_are_deleted_in_one_call,
    removals::a_group_is_removed_as_a_whole,
    trouble::nothing_changes_while_too_many_nodes_are_unready,
    trouble::machines_without_a_node_are_deleted,
    trouble::another_replica_takes_over_in_the_middle_of_a_removal,
}
