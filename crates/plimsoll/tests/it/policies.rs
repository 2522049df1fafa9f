//! Policies decide as Nomad Autoscaler and the Rancher design do.

use crate::vectors::check;

#[test]
fn strategies_answer_as_nomad_autoscalers_do() {
    check("nomad-strategies.jsonl", &[]);
}

#[test]
fn checks_and_groups_answer_as_nomad_autoscalers_do() {
    check("nomad-checks.jsonl", &[]);
}

#[test]
fn rancher_policies_and_rules_answer_as_the_design_says() {
    check("rancher.jsonl", &[]);
}

#[test]
fn policy_files_are_read_and_refused_as_nomad_autoscalers_are() {
    check("nomad-files.jsonl", &[]);
}
