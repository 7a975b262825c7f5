use proptest::prelude::*;
use trellis_api::status::condition::ConditionType;

use super::*;

#[derive(Clone, Debug)]
enum CaseEvent {
    Wait(i64),
    Commit,
    Place(PodPhase),
    RollBack,
    Preempt,
    Nominate,
    Clear,
    Pod(u32, PodPhase),
    Delete(u32),
    /// A pod that no plan names, or the awaited replacement of another pod.
    Join(u32, PodPhase),
    Lose(u32),
    Suspend(bool),
    Explain,
    Hold,
    Evict,
}

fn phase() -> impl Strategy<Value = PodPhase> {
    prop_oneof![
        Just(PodPhase::Pending),
        Just(PodPhase::Running),
        Just(PodPhase::Succeeded),
        Just(exit(1)),
    ]
}

fn case_event() -> impl Strategy<Value = CaseEvent> {
    prop_oneof![
        (0..100_i64).prop_map(CaseEvent::Wait),
        Just(CaseEvent::Commit),
        phase().prop_map(CaseEvent::Place),
        Just(CaseEvent::Place(PodPhase::Running)),
        Just(CaseEvent::RollBack),
        Just(CaseEvent::Preempt),
        Just(CaseEvent::Nominate),
        Just(CaseEvent::Clear),
        (0..4_u32, phase()).prop_map(|(i, p)| CaseEvent::Pod(i, p)),
        (0..4_u32).prop_map(CaseEvent::Delete),
        (0..4_u32, phase()).prop_map(|(i, p)| CaseEvent::Join(i, p)),
        (0..2_u32).prop_map(CaseEvent::Lose),
        any::<bool>().prop_map(CaseEvent::Suspend),
        Just(CaseEvent::Explain),
        Just(CaseEvent::Hold),
        Just(CaseEvent::Evict),
    ]
}

fn apply_event(case: &mut JobCase, event: CaseEvent) {
    let attempt = case.attempt();
    match event {
        CaseEvent::Wait(seconds) => case.second += seconds,
        CaseEvent::Commit => case.commit(attempt),
        CaseEvent::Place(phase) => case.place(attempt, &phase),
        CaseEvent::RollBack => case.journal.phase = Some(PodGroupPhase::Unwinding),
        CaseEvent::Preempt => case.preempt(),
        CaseEvent::Nominate => {
            case.commit(attempt);
            case.journal.phase = Some(PodGroupPhase::Nominated);
        }
        CaseEvent::Clear => case.clear(),
        CaseEvent::Pod(index, phase) => {
            let name = format!("llm-{}-{index}", case.group());
            if let Some(pod) = case.pods.get_mut(&name) {
                pod.phase = phase;
            }
        }
        CaseEvent::Delete(index) => {
            case.pods.remove(&format!("llm-{}-{index}", case.group()));
        }
        CaseEvent::Join(index, phase) => {
            if let Some(first) = case.pods.values().next().cloned() {
                let awaited = case.status.internal.awaited_pods.as_ref();
                let group = case.group();
                let round = awaited.and_then(|a| Some(a.index_by_pod().get(&group, index)?.round));
                // A pod of the plan is on its planned node.
                let planned_pod = case.pods.get(&format!("llm-{group}-{index}"));
                let node = planned_pod.map_or(first.node.clone(), |pod| pod.node.clone());
                let pod = PodView {
                    node,
                    uid: format!("joined-{index}-{round:?}"),
                    index,
                    round: round.unwrap_or(0),
                    phase,
                    ..first
                };
                case.pods.insert(format!("llm-{group}-{index}"), pod);
            }
        }
        CaseEvent::Lose(index) => {
            case.lost_nodes.insert(format!("node-{index}"));
        }
        CaseEvent::Suspend(suspend) => case.spec.suspend = Some(suspend),
        CaseEvent::Explain => case.set_explanation(Reason::InsufficientCapacity),
        CaseEvent::Evict => match case.eviction_reason {
            None => case.evict_by_policy(),
            Some(_) => case.allow_by_policy(),
        },
        CaseEvent::Hold => {
            case.eviction_reason = None;
            match case.readiness {
                JobReadiness::Runnable { .. } => {
                    case.hold_job(JobPhase::Waiting, Reason::QueueNotFound)
                }
                JobReadiness::OnHold(_) => case.allow_by_policy(),
            }
        }
    }
}

/// Returns a job for each restart scope (gang, pod, group), an elastic job, and a job with stages.
fn job_kinds() -> Vec<JobCase> {
    let case_with_scope = |scope: Value| {
        let mut restart = json!({"limit": 2, "disruptionLimit": 2});
        if !scope.is_null() {
            restart["scope"] = scope;
        }
        JobCase::new(json!({"restart": restart}))
    };
    let mut elastic = case_with_scope(Value::Null);
    let group = elastic.spec.task_groups.first_mut().unwrap();
    (group.replicas, group.min_replicas) = (Some(4), Some(2));
    vec![
        case_with_scope(Value::Null),
        case_with_scope(json!("Pod")),
        case_with_scope(json!("Group")),
        elastic,
        stages::staged_case(json!({"restart": {"limit": 2, "disruptionLimit": 2}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn status_invariants_hold_after_any_events(kind in 0..5_usize, events in prop::collection::vec(case_event(), 1..60)) {
        let mut case = job_kinds().swap_remove(kind);
        for event in events {
            apply_event(&mut case, event);
            let before = case.status.clone();
            let first = case.evaluate_and_store();
            let attempt = case.status.attempt.unwrap_or(1);
            prop_assert!(attempt >= before.attempt.unwrap_or(1));
            prop_assert!(attempt <= before.attempt.unwrap_or(1) + 1);
            let stage = |status: &TrainingJobStatus| status.stage.as_ref().map_or(1, |s| s.number);
            let (current_stage, previous_stage) = (stage(&case.status), stage(&before));
            prop_assert!(current_stage == previous_stage || (current_stage == previous_stage + 1 && attempt > before.attempt.unwrap_or(1)));
            prop_assert!(case.status.restarts.unwrap_or(0) <= 2);
            prop_assert!(case.status.disruptions.unwrap_or(0) <= 2);
            if before.phase.is_some_and(JobPhase::is_terminal) {
                prop_assert_eq!(&case.status, &before);
            }
            if first.status.is_some() {
                let types: Vec<_> =
                    case.status.conditions.iter().map(|c| c.type_.as_str()).collect();
                prop_assert_eq!(types, ConditionType::ALL.map(ConditionType::as_str).to_vec());
            }
            // A second evaluation changes nothing, with two exceptions: a job on hold reports the
            // hold once its failure is written, and a job that resumes or whose journal is lost
            // reports why it waits.
            let written = case.status.clone();
            case.evaluate_and_store();
            prop_assert_eq!(case.status.attempt, written.attempt);
            prop_assert_eq!(case.status.restarts, written.restarts);
            prop_assert_eq!(case.status.disruptions, written.disruptions);
            let was_suspended = before.phase == Some(JobPhase::Suspended) || before.internal.suspended_attempt.is_some();
            let resumed = was_suspended && first.desired == DesiredGang::Wait;
            let begins_anew = resumed || written.reason == Some(Reason::JournalLost);
            if matches!(case.readiness, JobReadiness::Runnable { .. }) && !begins_anew {
                prop_assert_eq!(&case.status, &written);
            }
            let settled = case.status.clone();
            case.evaluate_and_store();
            prop_assert_eq!(&case.status, &settled);
        }
    }
}
