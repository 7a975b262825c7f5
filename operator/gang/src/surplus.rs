//! Surplus pods: the pods of elastic groups above `minReplicas`, and all pods of groups with
//! `membership: BestEffort`. Each surplus pod is placed alone. It needs no journal, because one
//! write creates the pod with its node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::job::{FinishedPods, parse_ranges};
use trellis_api::pod_group::Plan;
use trellis_compiler::CompiledGroup;

use super::desired_gang::AuthorizedAttempt;
use crate::engine::SurplusPodId;
use crate::observed::PodView;

/// Number of surplus pods of one job for which the engine seeks places at once.
pub const MAX_PENDING_SURPLUS_PODS: usize = 32;
/// Shortest time between two growths of an elastic job. When pods join, all other pods restart from
/// their last checkpoint.
pub const GROWTH_INTERVAL: Duration = Duration::from_secs(60);

/// State of one surplus pod of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SurplusPodState {
    /// The pod exists on this node.
    Present(String),
    /// The pod does not exist and may be created.
    Creatable {
        /// The round in which it is created.
        round: i64,
        /// Earliest time, after a back-off.
        not_before: Option<Timestamp>,
    },
    /// The pod has ended, is being deleted, or may not be created yet.
    Unavailable,
}

/// Returns the surplus pods of the gang that is placed by this plan.
#[must_use]
pub fn surplus_pod_states(
    run: &AuthorizedAttempt,
    plan: &Plan,
    pods: &BTreeMap<String, PodView>,
    finished: Option<&FinishedPods>,
) -> BTreeMap<SurplusPodId, SurplusPodState> {
    let awaited = &run.attempt.awaited;
    let awaited = (awaited.attempt == plan.attempt).then_some(awaited);
    let by_pod = awaited
        .map(|awaited| awaited.index_by_pod())
        .unwrap_or_default();
    let finished = finished.filter(|finished| finished.attempt == plan.attempt);
    let mut states = BTreeMap::new();
    for group in run.job.compiled().groups() {
        let max_pods = max_replicas(run, plan, group);
        if max_pods <= group.gang_size() {
            continue;
        }
        let is_group_held =
            awaited.is_none_or(|a| a.held_groups.iter().any(|held| held == group.name()));
        let finished_pods = finished_indexes(finished, group.name());
        for index in group.gang_size()..max_pods {
            let entry = by_pod.get(group.name(), index);
            let round = entry.map_or(0, |entry| entry.round);
            let state = match pods.get(&group.pod_name(index)) {
                Some(pod) => match &pod.node {
                    Some(node) if is_current_pod(pod, run, plan, round) => {
                        SurplusPodState::Present(node.clone())
                    }
                    _ => SurplusPodState::Unavailable,
                },
                None if is_group_held || finished_pods.contains(&index) => {
                    SurplusPodState::Unavailable
                }
                None => SurplusPodState::Creatable {
                    round,
                    not_before: entry.and_then(|e| e.not_before.as_ref()).map(|t| t.0),
                },
            };
            let member = SurplusPodId {
                group: group.name().to_owned(),
                index,
            };
            states.insert(member, state);
        }
    }
    states
}

/// Returns the largest number of pods of the group. With some frameworks, the running pods know the
/// number of replicas of the plan, and pods beyond that number could never join.
fn max_replicas(run: &AuthorizedAttempt, plan: &Plan, group: &CompiledGroup) -> u32 {
    let framework = run.job.compiled().job().spec().framework();
    if !framework.spec().fixes_max_replicas {
        return group.replicas();
    }
    let planned = plan
        .elastic
        .iter()
        .find(|planned| planned.name == group.name());
    let planned = planned.map_or(u32::MAX, |group| u32::try_from(group.replicas).unwrap_or(0));
    group.replicas().min(planned)
}

fn finished_indexes(finished: Option<&FinishedPods>, group: &str) -> BTreeSet<u32> {
    let groups = finished.into_iter().flat_map(|finished| &finished.groups);
    let groups_of_name = groups.filter(|ended| ended.name == group);
    groups_of_name
        .flat_map(|g| [&g.completed_indexes, &g.failed_indexes])
        .flat_map(|ranges| parse_ranges(ranges))
        .collect()
}

fn is_current_pod(pod: &PodView, run: &AuthorizedAttempt, plan: &Plan, round: i64) -> bool {
    let is_of_plan = pod.job_uid == run.uid && pod.plan == plan.hash && pod.round >= round;
    is_of_plan && !pod.deleting && !pod.phase.is_over()
}

/// Returns true if the job no longer asks for the pod.
#[must_use]
pub(crate) fn is_beyond_replicas(run: &AuthorizedAttempt, pod: &PodView) -> bool {
    let mut groups = run.job.compiled().groups().iter();
    let group = groups.find(|group| group.name() == pod.group);
    group.is_some_and(|group| pod.index >= group.replicas())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trellis_api::job::{AwaitedPods, FinishedGroup};
    use trellis_api::pod_group::ElasticGroup;

    use super::*;
    use crate::fixtures::desired_run_with;
    use crate::observed::PodPhase;

    /// Returns an elastic job of 2 to 6 pods, and a group outside the gang.
    fn run(awaited: AwaitedPods) -> AuthorizedAttempt {
        let group = |name: &str, more: serde_json::Value| {
            let mut group = json!({"name": name, "image": "i",
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
            for (key, value) in more.as_object().unwrap() {
                group[key] = value.clone();
            }
            group
        };
        let worker = group("worker", json!({"replicas": 6, "minReplicas": 2}));
        let board = group("board", json!({"membership": "BestEffort"}));
        let desired = desired_run_with(
            1,
            json!({"framework": "PyTorch", "taskGroups": [worker, board]}),
        );
        let mut run = AuthorizedAttempt::clone(desired.attempt().unwrap());
        run.attempt.awaited = awaited;
        run
    }

    fn plan(replicas: i64) -> Plan {
        Plan {
            hash: "plan".to_owned(),
            attempt: 1,
            elastic: vec![ElasticGroup {
                name: "worker".to_owned(),
                replicas,
            }],
            ..Plan::default()
        }
    }

    fn pod(group: &str, index: u32) -> (String, PodView) {
        let view = PodView {
            uid: "u".to_owned(),
            job_uid: "mine".to_owned(),
            is_owned: true,
            judged_spec: Default::default(),
            group: group.to_owned(),
            index,
            attempt: 1,
            round: 0,
            plan: "plan".to_owned(),
            epoch: Some(1),
            created: None,
            node: Some("n".to_owned()),
            phase: PodPhase::Running,
            ready: true,
            start_obstacle: None,
            deleting: false,
            has_overlong_grace: false,
            deletion_requested: None,
            is_disrupted: false,
            checkpoint: None,
        };
        (format!("llm-{group}-{index}"), view)
    }

    fn awaited_none(attempt: i64) -> AwaitedPods {
        AwaitedPods {
            attempt,
            ..AwaitedPods::default()
        }
    }

    /// Returns the members and their states, as text.
    fn describe_states(states: &BTreeMap<SurplusPodId, SurplusPodState>) -> Vec<String> {
        let word = |(member, state): (&SurplusPodId, &SurplusPodState)| {
            let word = match state {
                SurplusPodState::Present(node) => node.clone(),
                SurplusPodState::Creatable { round, .. } => format!("free {round}"),
                SurplusPodState::Unavailable => "closed".to_owned(),
            };
            format!("{}-{} {word}", member.group, member.index)
        };
        states.iter().map(word).collect()
    }

    #[test]
    fn surplus_pod_is_present_when_it_exists_and_creatable_when_missing() {
        let no_pods = BTreeMap::new();
        let free = ["board-0 free 0", "worker-2 free 0", "worker-3 free 0"];
        assert_eq!(
            describe_states(&surplus_pod_states(
                &run(awaited_none(1)),
                &plan(4),
                &no_pods,
                None
            )),
            free
        );
        let mut pods = BTreeMap::from([pod("worker", 0), pod("worker", 2), pod("board", 0)]);
        let seats_of = |pods: &BTreeMap<_, _>| {
            describe_states(&surplus_pod_states(
                &run(awaited_none(1)),
                &plan(4),
                pods,
                None,
            ))
        };
        assert_eq!(
            seats_of(&pods),
            ["board-0 n", "worker-2 n", "worker-3 free 0"]
        );
        // The pod is being deleted, has ended, or belongs to another plan or job. Its replacement
        // has the same name, so the replacement is created after the pod is gone.
        type PodMutation = fn(&mut PodView);
        let changes: [PodMutation; 4] = [
            |pod| pod.deleting = true,
            |pod| pod.phase = PodPhase::Succeeded,
            |pod| pod.plan = "another".to_owned(),
            |pod| pod.job_uid = "another".to_owned(),
        ];
        for change in changes {
            let before = pods["llm-worker-2"].clone();
            change(pods.get_mut("llm-worker-2").unwrap());
            assert_eq!(seats_of(&pods)[1], "worker-2 closed");
            pods.insert("llm-worker-2".to_owned(), before);
        }
    }

    #[test]
    fn awaited_surplus_pod_is_creatable_in_its_round_and_finished_unavailable() {
        let no_pods = BTreeMap::new();
        let mut awaited = awaited_none(1);
        awaited.round = 3;
        awaited.await_pods("worker", &[3].into(), None, false);
        awaited.held_groups = vec!["board".to_owned()];
        let finished = FinishedPods {
            attempt: 1,
            groups: vec![FinishedGroup {
                name: "worker".to_owned(),
                completed_indexes: "2".to_owned(),
                failed_indexes: String::new(),
            }],
        };
        let states = surplus_pod_states(&run(awaited), &plan(4), &no_pods, Some(&finished));
        let words = ["board-0 closed", "worker-2 closed", "worker-3 free 3"];
        assert_eq!(describe_states(&states), words);
        // The awaited pods of another attempt do not count.
        let states = super::surplus_pod_states(&run(awaited_none(2)), &plan(4), &no_pods, None);
        assert!(
            describe_states(&states)
                .iter()
                .all(|state| state.ends_with("closed"))
        );
    }

    #[test]
    fn pod_above_the_replicas_is_beyond() {
        let beyond = |index| is_beyond_replicas(&run(awaited_none(1)), &pod("worker", index).1);
        assert_eq!([1, 5, 6].map(beyond), [false, false, true]);
    }
}
