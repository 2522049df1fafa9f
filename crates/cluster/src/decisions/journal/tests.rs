//! The rules of the journal.

use serde_json::json;

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key(name: &str) -> SubjectKey {
    ("FleetAutoscaler", Key::new("default", name))
}

fn signature(to: i64, reasons: &[&str], outcome: DecisionOutcome) -> Signature {
    Signature::new(Some(to), None, reasons.iter().copied(), outcome)
}

fn grows(to: i64) -> Signature {
    signature(to, &["BufferShort"], DecisionOutcome::Applied)
}

/// Notes an evaluation of an autoscaler whose decisions are listed, and does what the recorder does.
fn record(journal: &mut Journal, signature: Signature, now: Timestamp) -> Step {
    let step = journal.evaluated(&key("a"), "u", signature, now);
    if journal.is_unlisted(&key("a")) {
        journal.listed(&key("a"), Stored::default());
    }
    if step == Step::Write
        && let Some(sequence) = journal.next_sequence(&key("a"), signature)
    {
        journal.written(&key("a"), sequence, signature, now);
    }
    step
}

#[test]
fn a_new_object_only_when_the_size_a_reason_or_the_action_changes() {
    let mut journal = Journal::default();
    let (short, kept) = (["BufferShort"], ["BufferKept"]);
    for (signature, wanted) in [
        (signature(5, &short, DecisionOutcome::Applied), Step::Write),
        (signature(5, &short, DecisionOutcome::Applied), Step::Count),
        (signature(6, &short, DecisionOutcome::Applied), Step::Write),
        (signature(6, &kept, DecisionOutcome::Held), Step::Write),
        (signature(6, &kept, DecisionOutcome::Held), Step::Count),
        (signature(6, &kept, DecisionOutcome::Failed), Step::Write),
        (Signature::new(None, Some("NoReply"), [], DecisionOutcome::Held), Step::Write),
        (Signature::new(None, Some("ReplyFailed"), [], DecisionOutcome::Held), Step::Write),
        (Signature::new(None, Some("ReplyFailed"), [], DecisionOutcome::Held), Step::Count),
    ] {
        assert_eq!(record(&mut journal, signature, second(0)), wanted);
    }
}

#[test]
fn a_stored_decision_has_the_signature_it_was_written_with() {
    let spec: DecisionSpec = serde_json::from_value(json!({
        "at": "2026-01-01T00:00:00Z", "subject": {"kind": "Fleet", "name": "f"}, "outcome": "Applied",
        "decision": {"to": 5, "reasons": [{"code": "BufferShort", "message": "any"}], "delete": ["a"]},
    }))
    .unwrap();
    assert_eq!(Signature::from_spec(&spec), grows(5));
    let refused: DecisionSpec = serde_json::from_value(json!({
        "at": "2026-01-01T00:00:00Z", "subject": {"kind": "Fleet", "name": "f"}, "outcome": "Held",
        "decision": {"error": {"code": "NoReply", "message": "any"}, "reasons": []},
    }))
    .unwrap();
    let held = Signature::new(None, Some("NoReply"), [], DecisionOutcome::Held);
    assert_eq!(Signature::from_spec(&refused), held);
}

#[test]
fn repetitions_are_written_at_most_every_five_minutes() {
    let mut journal = Journal::default();
    record(&mut journal, grows(5), second(0));
    for at in 1..300 {
        assert_eq!(record(&mut journal, grows(5), second(at)), Step::Count);
    }
    assert_eq!(record(&mut journal, grows(5), second(300)), Step::Update);
    let wanted = Repetition { sequence: 1, repeated: 300, last_at: second(300) };
    assert_eq!(journal.repetition(&key("a")), Some(wanted));
    assert_eq!(journal.repetition(&key("a")), None, "it was made");
    assert_eq!(record(&mut journal, grows(5), second(301)), Step::Count);
    assert_eq!(record(&mut journal, grows(5), second(600)), Step::Update);
    assert_eq!(journal.repetition(&key("a")).unwrap().repeated, 302);
}

#[test]
fn after_a_restart_the_newest_stored_decision_is_compared_and_the_sequence_continues() {
    let mut journal = Journal::default();
    let stored = Stored {
        kept: VecDeque::from([(40, second(0)), (41, second(1))]),
        sequence: 41,
        newest: Some((grows(5), 7)),
    };
    assert_eq!(journal.evaluated(&key("a"), "u", grows(5), second(2)), Step::Write);
    assert!(journal.is_unlisted(&key("a")));
    journal.listed(&key("a"), stored);
    assert_eq!(journal.next_sequence(&key("a"), grows(5)), None, "it repeats the stored one");
    assert_eq!(journal.repetition(&key("a")).unwrap().repeated, 8);
    assert_eq!(journal.evaluated(&key("a"), "u", grows(6), second(3)), Step::Write);
    assert_eq!(journal.next_sequence(&key("a"), grows(6)), Some(42));
}

#[test]
fn the_last_twenty_are_kept_and_none_for_longer_than_a_day_but_the_newest() {
    let day = SignedDuration::from_hours(24);
    let mut journal = Journal::default();
    let mut expired = Vec::new();
    for at in 0..25 {
        record(&mut journal, grows(at), second(at));
        expired.extend(journal.expired(&key("a"), 20, day, second(at)));
    }
    assert_eq!(expired, [1, 2, 3, 4, 5]);
    let late = journal.expired(&key("a"), 20, day, second(24 * 3600 + 10));
    assert_eq!(late, [6, 7, 8, 9, 10]);
    let all = journal.expired(&key("a"), 20, day, second(72 * 3600));
    assert_eq!(all, (11..25).collect::<Vec<_>>(), "the newest one still holds");
}

#[test]
fn one_that_was_not_written_is_not_repeated() {
    let mut journal = Journal::default();
    journal.evaluated(&key("a"), "u", grows(5), second(0));
    journal.not_written(&key("a"));
    assert_eq!(journal.evaluated(&key("a"), "u", grows(5), second(1)), Step::Write);
    journal.restarted();
    assert_eq!(journal.evaluated(&key("a"), "u", grows(5), second(2)), Step::Write);
}

#[test]
fn another_object_of_the_same_name_is_another_subject() {
    let mut journal = Journal::default();
    record(&mut journal, grows(5), second(0));
    assert_eq!(journal.evaluated(&key("a"), "other", grows(5), second(1)), Step::Write);
    assert!(journal.is_unlisted(&key("a")), "its decisions are other ones");
    journal.remove(&key("a"));
    assert_eq!(journal.evaluated(&key("a"), "other", grows(5), second(2)), Step::Write);
}

#[test]
fn memory_is_bounded() {
    let mut journal = Journal::default();
    let count = MAX_SUBJECTS + 1000;
    for at in 0..count {
        journal.evaluated(&key(&at.to_string()), "u", grows(5), second(at as i64));
        assert!(journal.subjects.len() <= MAX_SUBJECTS);
    }
    let latest = key(&(count - 1).to_string());
    let step = journal.evaluated(&latest, "u", grows(5), second(count as i64));
    assert_eq!(step, Step::Count, "the latest are remembered");
}

#[test]
fn of_a_decision_about_nodes_sizes_removals_and_reasons_count() {
    let decision = |group: &str, waiting: usize, reason: &str, deleted: &str| {
        let why = json!([{"group": "g", "reason": reason, "message": waiting.to_string()}]);
        let waiting: Vec<Value> =
            (0..waiting).map(|n| json!({"pod": format!("p{n}"), "why": why})).collect();
        let decision = json!({
            "scaleUp": [{"group": group, "from": 1, "to": 2, "pods": []}],
            "unschedulable": waiting, "delete": [{"node": deleted}], "unremovable": [],
            "reasons": [],
        });
        decision.as_object().unwrap().clone()
    };
    let signature = |decision: &Map<String, Value>| {
        let signature = Signature::of_decision(decision, DecisionOutcome::Applied);
        let stored = Signature::of_decision(&super::super::cut(decision), DecisionOutcome::Applied);
        assert_eq!(signature, stored, "it is the same once it is stored");
        signature
    };
    let first = signature(&decision("a", 250, "AtMaxSize", "n"));
    for (what, other, is_same) in [
        ("other pods wait", decision("a", 3, "AtMaxSize", "n"), true),
        ("another group grows", decision("b", 250, "AtMaxSize", "n"), false),
        ("another reason", decision("a", 250, "BackedOff", "n"), false),
        ("another node goes", decision("a", 250, "AtMaxSize", "m"), false),
    ] {
        assert_eq!(signature(&other) == first, is_same, "{what}");
    }
}
