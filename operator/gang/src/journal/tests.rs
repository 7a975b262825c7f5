use super::*;
use crate::fixtures::PHASES;
use crate::patch;

fn plan_of(hash: &str) -> Plan {
    Plan {
        hash: hash.to_owned(),
        ..Plan::default()
    }
}

fn journal(phase: PodGroupPhase) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(phase),
        epoch: Some(3),
        plan: (phase != PodGroupPhase::Pending).then(|| plan_of("plan")),
        ..PodGroupStatus::default()
    }
}

/// The phases that a transition starts from, as first letters of their names.
fn from(transition: impl Fn(&PodGroupStatus) -> Option<PodGroupStatus>) -> String {
    PHASES
        .into_iter()
        .filter(|phase| transition(&journal(*phase)).is_some())
        .map(|phase| format!("{phase:?}").chars().next().unwrap())
        .collect()
}

#[test]
fn a_transition_starts_from_its_own_phases_alone() {
    let now = Timestamp::UNIX_EPOCH;
    let because = |failed| {
        move |before: &PodGroupStatus| {
            undone(before, Reason::PodRefused, String::new(), failed, now)
        }
    };
    // Pending and Nominated.
    assert_eq!(from(|b| opened(b, plan_of("new"))), "PN");
    let nominate = |b: &PodGroupStatus| nominated(b, plan_of("new"), vec![], String::new());
    assert_eq!(from(nominate), "PN");
    assert_eq!(from(voided), "N");
    assert_eq!(
        from(|b| put_off(b, Reason::PodRefused, String::new(), now)),
        "PN"
    );
    assert_eq!(from(taken_over), "CN");
    // Committing and Placed.
    assert_eq!(from(because(true)), "CP");
    assert_eq!(from(because(false)), "CP");
    assert!(because(true)(&journal(PodGroupPhase::Pending)).is_none());
    assert_eq!(from(cleared), "U");
    assert_eq!(
        finished(&journal(PodGroupPhase::Placed)).unwrap().phase,
        Some(PodGroupPhase::Finished)
    );
    assert!(finished(&journal(PodGroupPhase::Pending)).is_none());
}

#[test]
fn a_plan_is_closed_by_its_own_hash_alone() {
    assert_eq!(from(|b| closed(b, "plan")), "C");
    assert_eq!(from(|b| closed(b, "another")), "");
    let no_plan = PodGroupStatus {
        plan: None,
        ..journal(PodGroupPhase::Committing)
    };
    assert!(closed(&no_plan, "plan").is_none());
}

#[test]
fn a_gang_that_is_refused_loses_its_turn_for_longer_each_time() {
    let now = Timestamp::UNIX_EPOCH;
    let mut status = PodGroupStatus::default();
    let mut waits = Vec::new();
    for _ in 0..9 {
        status = opened(&status, plan_of("plan")).unwrap();
        status = undone(&status, Reason::PodRefused, String::new(), true, now).unwrap();
        waits.push(status.retry_time.as_ref().unwrap().0.as_second());
        status = cleared(&status).unwrap();
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    let open = opened(&status, plan_of("plan")).unwrap();
    assert_eq!(open.failures, Some(9));
    assert_eq!(closed(&open, "plan").unwrap().failures, None);
}

#[test]
fn a_plan_says_when_its_gang_got_its_place() {
    let wish = crate::fixtures::run(1);
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let plan = plan(wish.run().unwrap(), &Place::default(), now);
    assert_eq!(made_at(&plan), Some(now));
    assert_eq!(made_at(&plan_of("of nobody")), None);
}

#[test]
fn a_patch_removes_what_is_gone() {
    let before = journal(PodGroupPhase::Unwinding);
    let patch = patch::between(&before, &cleared(&before).unwrap());
    assert_eq!(patch["plan"], serde_json::Value::Null);
    assert_eq!(patch["phase"], "Pending");
}

#[test]
fn a_plan_of_another_epoch_is_the_predecessors_only_if_it_was_there_before() {
    let open = journal(PodGroupPhase::Committing);
    assert_eq!(author(&open, Epoch(3), None), Author::Ours);
    // The result is the same every time: a take-over that failed is tried again.
    for _ in 0..2 {
        assert_eq!(author(&open, Epoch(4), Some("plan")), Author::Predecessor);
    }
    assert_eq!(author(&open, Epoch(4), Some("another")), Author::Stale);
    assert_eq!(author(&open, Epoch(4), None), Author::Stale);
}

#[test]
fn a_nomination_becomes_a_plan_of_the_same_name_and_ends_with_it() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let place = |hash: &str, node: &str, second: i64| Plan {
        deadline: Some(Time(at(second + 120))),
        assignments: vec![Assignment {
            group: "worker".to_owned(),
            node: node.to_owned(),
            count: 2,
            pods: Vec::new(),
        }],
        ..plan_of(hash)
    };
    let victim = NominatedVictim {
        namespace: "ns".to_owned(),
        name: "low".to_owned(),
        uid: "uid".to_owned(),
        pod: None,
        plan: "theirs".to_owned(),
        because: trellis_api::pod_group::Because::Borrows,
    };
    let first = place("first", "a", 0);
    let journal = nominated(
        &PodGroupStatus::default(),
        first.clone(),
        vec![victim],
        "one leaves".to_owned(),
    )
    .unwrap();
    assert_eq!(journal.reason, Some(Reason::Preempting));
    // The same place at a later time keeps its hash and gets a new time; another place gets another
    // hash.
    let same = renewed(place("second", "a", 500), &first);
    assert_eq!(
        (same.hash.as_str(), made_at(&same)),
        ("first", Some(at(500)))
    );
    assert_eq!(renewed(place("second", "b", 500), &first).hash, "second");
    for after in [opened(&journal, same), voided(&journal)] {
        let after = after.unwrap();
        assert!(after.victims.is_empty() && after.reason.is_none());
    }
    let off = put_off(&journal, Reason::PodRefused, String::new(), at(0)).unwrap();
    assert!(off.victims.is_empty() && off.plan.is_none());
}

#[test]
fn only_who_makes_room_is_evicted() {
    let undo = |reason| {
        let before = journal(PodGroupPhase::Placed);
        undone(&before, reason, String::new(), false, Timestamp::UNIX_EPOCH).unwrap()
    };
    let preempted = undo(Reason::Preempted);
    assert!(makes_room(&preempted));
    assert_eq!(
        preempted.evict_until,
        Some(Time(Timestamp::from_second(120).unwrap()))
    );
    let gone = cleared(&preempted).unwrap();
    assert!(!makes_room(&gone) && gone.evict_until.is_none());
    let suspended = undo(Reason::Suspended);
    assert!(!makes_room(&suspended) && suspended.evict_until.is_none());
}
