//! The leader: the production code decides its step from its cache, and the step becomes requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use trellis_api::Reason;
use trellis_api::pod_group::{Assignment, Plan, PodGroupStatus};

use super::world::{Journal, PODS, Phase, Pod, Request, World};
use crate::desired_gang::DesiredGang;
use crate::fixtures::desired_run_with;
use crate::gang_step::deletions::Deletions;
use crate::gang_step::{CreatedMembers, CreatedStep, GangStep, ObservedGang, SurplusPods};
use crate::journal::{self, epoch::Epoch};
use crate::observed::{PodPhase, PodView};

/// Attempts that the search can reach.
const ATTEMPTS: i64 = 8;

static RUNS: LazyLock<Vec<DesiredGang>> = LazyLock::new(|| {
    let groups = json!({"taskGroups": [{"name": "worker", "replicas": PODS, "gpus": 8,
        "image": "train:1", "resources": {"limits": {"cpu": "96", "memory": "1Ti"}}}]});
    (1..=ATTEMPTS)
        .map(|attempt| desired_run_with(attempt, groups.clone()))
        .collect()
});
static SUSPENSION: LazyLock<DesiredGang> = LazyLock::new(|| DesiredGang::stop(Reason::Suspended));
static NO_NODES: BTreeSet<String> = BTreeSet::new();
static NO_SURPLUS: LazyLock<SurplusPods> = LazyLock::new(SurplusPods::default);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The next action of the leader.
#[derive(Debug)]
pub(super) enum Decision {
    /// It sends requests, one after the other.
    Send(Vec<Request>),
    /// The engine has a place: the leader writes a new plan for this attempt.
    Place,
    /// The controller writes that the attempt has ended.
    EndAttempt,
    /// It waits.
    Wait,
}

/// Decides the next step of the leader from its cache.
pub(super) fn decide(world: &World) -> Decision {
    let leader = &world.leader;
    let status = to_status(world, leader.journal);
    let pods = to_views(&leader.pods);
    let mut deletions = Deletions::default();
    for (index, incarnation) in &leader.asked {
        deletions.record_request(&uid(*index, *incarnation), false, *START);
    }
    let desired = match world.job.is_suspended {
        false => &RUNS[usize::from(world.job.attempt) - 1],
        true => &SUSPENSION,
    };
    let inherited = leader.inherited.map(hash);
    let epoch = Epoch(i64::from(leader.epoch));
    let gang = ObservedGang {
        journal: &status,
        author: Some(journal::plan_author(&status, epoch, inherited.as_deref())),
        preemption_message: leader.must_leave.then_some("another gang comes first"),
        deletions: &deletions,
        now: Timestamp::UNIX_EPOCH,
        clock: *START + Duration::from_millis(1),
        members: CreatedMembers {
            uid: "mine",
            attempt: world.job.attempt.into(),
            was_placed: world.job.was_placed,
            stage_first_attempt: 1,
            keeps_finished_pods: false,
            desired,
            pods: &pods,
            lost_nodes: &NO_NODES,
            grace: 30,
            surplus_removals: &NO_SURPLUS,
        },
    };
    let write = |after: Option<PodGroupStatus>| match after {
        Some(after) => Decision::Send(vec![journal_request(world, &after)]),
        None => Decision::Wait,
    };
    match gang.next_step() {
        GangStep::Enqueue(_) => Decision::Place,
        GangStep::TakeOver => write(journal::take_over(&status)),
        GangStep::Commit => Decision::Send(commit(world, &status)),
        GangStep::RollBack {
            reason,
            message,
            failed,
        } => write(journal::roll_back(
            &status,
            reason,
            message,
            failed,
            Timestamp::UNIX_EPOCH,
        )),
        GangStep::Delete(pods) | GangStep::Evict(pods) => Decision::Send(
            pods.iter()
                .map(|pod| {
                    let (index, incarnation) = parse_uid(&pod.uid);
                    Request::Delete { index, incarnation }
                })
                .collect(),
        ),
        GangStep::ClearPlan => write(journal::clear_plan(&status)),
        GangStep::Special(CreatedStep::Finish) => write(journal::finish(&status)),
        GangStep::Special(CreatedStep::AwaitStatus) => Decision::EndAttempt,
        GangStep::Special(CreatedStep::ReplaceSlice(replacement)) => {
            let hash = journal::intent_hash(&status).unwrap_or_default();
            write(journal::replace_slice(&status, hash, &replacement))
        }
        GangStep::EndProvisioning => write(journal::end_provisioning(&status)),
        GangStep::CancelNomination => write(journal::cancel_nomination(&status)),
        GangStep::AwaitPods
        | GangStep::Withdraw
        | GangStep::RemoveVictims
        | GangStep::KeepPlace(_)
        | GangStep::StandBy => Decision::Wait,
    }
}

/// Returns the write that opens a new plan.
pub(super) fn open_plan(world: &World, plan: u8) -> Option<Request> {
    let status = to_status(world, world.leader.journal);
    let after = journal::open_plan(&status, to_plan(world, plan))?;
    Some(journal_request(world, &after))
}

/// Returns the write that rolls a plan back, because another pod has the name of its pod.
pub(super) fn give_up_plan(world: &World) -> Option<Request> {
    let status = to_status(world, world.leader.journal);
    let now = Timestamp::UNIX_EPOCH;
    let after = journal::roll_back(&status, Reason::NameConflict, String::new(), true, now)?;
    Some(journal_request(world, &after))
}

/// Returns the creates of the pods that the leader does not see, and the write that closes the plan.
fn commit(world: &World, status: &PodGroupStatus) -> Vec<Request> {
    let Some(plan) = world.leader.journal.plan else {
        return Vec::new();
    };
    let attempt = world.plans[usize::from(plan)];
    let is_there = |pod: &Option<Pod>| pod.is_some_and(|pod| pod.plan == plan);
    let missing = (0..).zip(&world.leader.pods);
    let creates = missing
        .filter(|(_, pod)| !is_there(pod))
        .map(|(index, _)| Request::Create {
            index,
            plan,
            attempt,
        });
    let close = journal::close_plan(status, &hash(plan));
    creates
        .chain(close.map(|after| journal_request(world, &after)))
        .collect()
}

fn journal_request(world: &World, after: &PodGroupStatus) -> Request {
    Request::Journal {
        version: world.leader.version,
        journal: Journal {
            phase: Phase::from_api(after.phase.unwrap_or_default()),
            epoch: world.leader.epoch,
            plan: after.plan.as_ref().map(|plan| parse_hash(&plan.hash)),
            is_preempted: after.reason == Some(Reason::Preempted),
        },
    }
}

fn to_status(world: &World, journal: Journal) -> PodGroupStatus {
    PodGroupStatus {
        phase: Some(journal.phase.to_api()),
        epoch: Some(journal.epoch.into()),
        plan: journal.plan.map(|plan| to_plan(world, plan)),
        reason: journal.is_preempted.then_some(Reason::Preempted),
        ..PodGroupStatus::default()
    }
}

fn to_plan(world: &World, plan: u8) -> Plan {
    let compiled = RUNS[0].attempt().map(|run| run.job.compiled().hash());
    let deadline = match world.expired.contains(&plan) {
        true => Timestamp::UNIX_EPOCH,
        false => Timestamp::MAX,
    };
    Plan {
        hash: hash(plan),
        attempt: world
            .plans
            .get(usize::from(plan))
            .copied()
            .unwrap_or(world.job.attempt)
            .into(),
        compiled: compiled.unwrap_or_default().to_owned(),
        deadline: Some(Time(deadline)),
        assignments: (0..PODS)
            .map(|index| Assignment {
                group: "worker".to_owned(),
                node: format!("node-{index}"),
                count: 1,
                pods: Vec::new(),
            })
            .collect(),
        ..Plan::default()
    }
}

fn to_views(pods: &[Option<Pod>; PODS]) -> BTreeMap<String, PodView> {
    let pods = (0_u8..).zip(pods);
    pods.filter_map(|(index, pod)| Some((format!("llm-worker-{index}"), to_view(index, (*pod)?))))
        .collect()
}

fn to_view(index: u8, pod: Pod) -> PodView {
    PodView {
        uid: uid(index, pod.incarnation),
        job_uid: "mine".to_owned(),
        is_owned: true,
        judged_spec: Default::default(),
        group: "worker".to_owned(),
        index: index.into(),
        attempt: pod.attempt.into(),
        round: 0,
        plan: hash(pod.plan),
        epoch: None,
        node: Some(format!("node-{index}")),
        created: None,
        phase: match pod.has_failed {
            true => PodPhase::Failed {
                exit_code: Some(1),
                reason: "Error".to_owned(),
                at: None,
                last_line: None,
            },
            false => PodPhase::Running,
        },
        ready: true,
        start_obstacle: None,
        deleting: pod.is_stopping,
        deletion_requested: None,
        has_overlong_grace: false,
        is_disrupted: false,
        checkpoint: None,
    }
}

fn hash(plan: u8) -> String {
    format!("plan-{plan}")
}

fn parse_hash(hash: &str) -> u8 {
    hash.trim_start_matches("plan-").parse().unwrap()
}

fn uid(index: u8, incarnation: u8) -> String {
    format!("{index}-{incarnation}")
}

fn parse_uid(uid: &str) -> (u8, u8) {
    let (index, incarnation) = uid.split_once('-').unwrap();
    (index.parse().unwrap(), incarnation.parse().unwrap())
}
