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

fn order_of(hash: &str) -> JournaledOrder {
    JournaledOrder {
        hash: hash.to_owned(),
        attempt: 1,
        compiled: String::new(),
        groups: Vec::new(),
        nodes: Vec::new(),
        since: Time(Timestamp::UNIX_EPOCH),
        until: Time(Timestamp::UNIX_EPOCH),
    }
}

fn journal_with_order(hash: &str) -> PodGroupStatus {
    provision(&PodGroupStatus::default(), order_of(hash)).unwrap()
}

#[test]
fn order_of_nodes_is_gone_from_the_journal_once_the_gang_goes_on() {
    let ordered = journal_with_order("order");
    assert_eq!(ordered.phase, Some(PodGroupPhase::Provisioning));
    assert_eq!(intent_hash(&ordered), Some("order"));
    let now = Timestamp::UNIX_EPOCH;
    for next in [
        open_plan(&ordered, plan_of("plan")).unwrap(),
        nominate(&ordered, plan_of("plan"), Vec::new(), String::new()).unwrap(),
        postpone(&ordered, Reason::PodRefused, String::new(), now).unwrap(),
        end_provisioning(&ordered).unwrap(),
    ] {
        assert_eq!(next.provisioning, None);
        assert_ne!(next.phase, Some(PodGroupPhase::Provisioning));
    }
    let replaced = provision(&ordered, order_of("next")).unwrap();
    assert_eq!(intent_hash(&replaced), Some("next"));
    assert_eq!(take_over(&ordered), Some(ordered.clone()));
    assert_eq!(end_provisioning(&PodGroupStatus::default()), None);
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        assert_eq!(provision(&journal(phase), order_of("order")), None);
    }
}

#[test]
fn order_of_another_epoch_is_stale_unless_this_leader_inherited_it() {
    let ordered = PodGroupStatus {
        epoch: Some(3),
        ..journal_with_order("order")
    };
    let author = |epoch, inherited| plan_author(&ordered, Epoch(epoch), inherited);
    assert_eq!(author(3, None), PlanAuthor::ThisLeader);
    assert_eq!(author(4, Some("order")), PlanAuthor::Predecessor);
    assert_eq!(author(4, None), PlanAuthor::Stale);
}

/// Returns the phases that a transition starts from, as first letters of their names.
fn start_phases(transition: impl Fn(&PodGroupStatus) -> Option<PodGroupStatus>) -> String {
    PHASES
        .into_iter()
        .filter(|phase| transition(&journal(*phase)).is_some())
        .map(|phase| format!("{phase:?}").chars().next().unwrap())
        .collect()
}

#[test]
fn transition_starts_only_from_its_own_phases() {
    let now = Timestamp::UNIX_EPOCH;
    let roll_back_with = |failed| {
        move |before: &PodGroupStatus| {
            roll_back(before, Reason::PodRefused, String::new(), failed, now)
        }
    };
    // Pending and Nominated.
    assert_eq!(start_phases(|b| open_plan(b, plan_of("new"))), "PN");
    let nominate = |b: &PodGroupStatus| nominate(b, plan_of("new"), vec![], String::new());
    assert_eq!(start_phases(nominate), "PN");
    assert_eq!(start_phases(cancel_nomination), "N");
    assert_eq!(
        start_phases(|b| postpone(b, Reason::PodRefused, String::new(), now)),
        "PN"
    );
    assert_eq!(start_phases(take_over), "CN");
    // Committing and Placed.
    assert_eq!(start_phases(roll_back_with(true)), "CP");
    assert_eq!(start_phases(roll_back_with(false)), "CP");
    assert!(roll_back_with(true)(&journal(PodGroupPhase::Pending)).is_none());
    assert_eq!(start_phases(clear_plan), "U");
    assert_eq!(
        finish(&journal(PodGroupPhase::Placed)).unwrap().phase,
        Some(PodGroupPhase::Finished)
    );
    assert!(finish(&journal(PodGroupPhase::Pending)).is_none());
}

#[test]
fn plan_is_closed_only_with_its_own_hash() {
    assert_eq!(start_phases(|b| close_plan(b, "plan")), "C");
    assert_eq!(start_phases(|b| close_plan(b, "another")), "");
    let no_plan = PodGroupStatus {
        plan: None,
        ..journal(PodGroupPhase::Committing)
    };
    assert!(close_plan(&no_plan, "plan").is_none());
}

#[test]
fn retry_pause_of_a_refused_gang_doubles_up_to_the_limit() {
    let now = Timestamp::UNIX_EPOCH;
    let mut status = PodGroupStatus::default();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        status = open_plan(&status, plan_of("plan")).unwrap();
        status = roll_back(&status, Reason::PodRefused, String::new(), true, now).unwrap();
        pauses.push(status.retry_time.as_ref().unwrap().0.as_second());
        status = clear_plan(&status).unwrap();
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    let open = open_plan(&status, plan_of("plan")).unwrap();
    assert_eq!(open.failures, Some(9));
    assert_eq!(close_plan(&open, "plan").unwrap().failures, None);
}

#[test]
fn plan_start_is_the_time_of_the_placement() {
    let desired = crate::fixtures::desired_run(1);
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let plan = build_plan(desired.attempt().unwrap(), &GangPlacement::default(), now);
    assert_eq!(plan_start(&plan), Some(now));
    assert_eq!(plan_start(&plan_of("without deadline")), None);
}

#[test]
fn patch_sets_removed_fields_to_null() {
    let before = journal(PodGroupPhase::Unwinding);
    let patch = patch::diff(&before, &clear_plan(&before).unwrap());
    assert_eq!(patch["plan"], serde_json::Value::Null);
    assert_eq!(patch["phase"], "Pending");
}

#[test]
fn plan_of_another_epoch_is_stale_unless_this_leader_inherited_it() {
    let open = journal(PodGroupPhase::Committing);
    assert_eq!(plan_author(&open, Epoch(3), None), PlanAuthor::ThisLeader);
    // The result is the same each time, because a failed take-over is repeated.
    for _ in 0..2 {
        assert_eq!(
            plan_author(&open, Epoch(4), Some("plan")),
            PlanAuthor::Predecessor
        );
    }
    assert_eq!(
        plan_author(&open, Epoch(4), Some("another")),
        PlanAuthor::Stale
    );
    assert_eq!(plan_author(&open, Epoch(4), None), PlanAuthor::Stale);
}

#[test]
fn nomination_keeps_its_hash_and_ends_when_its_plan_opens() {
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
        pods: None,
        plan: "victim-plan".to_owned(),
        because: trellis_api::pod_group::VictimReason::Borrows,
    };
    let first = place("first", "a", 0);
    let journal = nominate(
        &PodGroupStatus::default(),
        first.clone(),
        vec![victim],
        "one gang leaves".to_owned(),
    )
    .unwrap();
    assert_eq!(journal.reason, Some(Reason::Preempting));
    // A later plan for the same place keeps the hash and has a new deadline. A plan for another
    // place has another hash.
    let same = reuse_plan_hash(place("second", "a", 500), &first);
    assert_eq!(
        (same.hash.as_str(), plan_start(&same)),
        ("first", Some(at(500)))
    );
    assert_eq!(
        reuse_plan_hash(place("second", "b", 500), &first).hash,
        "second"
    );
    for status in [open_plan(&journal, same), cancel_nomination(&journal)] {
        let status = status.unwrap();
        assert!(status.victims.is_empty() && status.reason.is_none());
    }
    let postponed = postpone(&journal, Reason::PodRefused, String::new(), at(0)).unwrap();
    assert!(postponed.victims.is_empty() && postponed.plan.is_none());
}

#[test]
fn only_a_preempted_gang_is_evicted() {
    let rolled_back = |reason| {
        let before = journal(PodGroupPhase::Placed);
        roll_back(&before, reason, String::new(), false, Timestamp::UNIX_EPOCH).unwrap()
    };
    let preempted = rolled_back(Reason::Preempted);
    assert!(is_preempted(&preempted));
    assert_eq!(
        preempted.evict_until,
        Some(Time(Timestamp::from_second(120).unwrap()))
    );
    let cleared = clear_plan(&preempted).unwrap();
    assert!(!is_preempted(&cleared) && cleared.evict_until.is_none());
    let suspended = rolled_back(Reason::Suspended);
    assert!(!is_preempted(&suspended) && suspended.evict_until.is_none());
}
