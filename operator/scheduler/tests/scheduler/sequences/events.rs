//! Random events for an engine.

use std::time::Duration;

use crate::common::GPU;
use crate::random::{
    any_fair_share, any_gang_with_topology, any_labelled_node, any_request, any_runtime,
    with_merged_groups,
};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, FlavorName, Gang, LimitDraw, LimitName, LimitUnit, Node, PreemptionPolicy,
    QueueStop, ReclaimPolicy, ResourceName, Resources, WithinQueuePolicy,
};

pub const NODES: usize = 4;
pub const GANGS: usize = 5;
const LIMITS: usize = 5;

/// Further settings in which queues differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueFlags {
    pub stop: QueueStop,
    pub below: bool,
    pub no_backfill: bool,
    pub default_runtime: Option<Duration>,
    pub preemption: PreemptionPolicy,
}

#[derive(Clone, Debug)]
pub enum Event {
    ApplyNode(Node),
    DeleteNode(usize),
    ApplyForeign(usize, usize, Resources),
    DeleteForeign(usize),
    ApplyQueue(usize, Option<(i64, i64)>, QueueFlags),
    /// The queue that may be the parent of other queues.
    ApplyRoot(Option<(i64, i64)>),
    DeleteRoot,
    DeleteQueue(usize),
    ApplyGang(Gang),
    DeleteGang(usize),
    /// Deletes a gang whose known pods still stop.
    RetireGang(usize),
    ReleaseGang(usize, Option<i64>),
    /// Applies a topology, with all of its levels or without the first.
    ApplyTopology(usize, bool),
    DeleteTopology(usize),
    /// Adds a planned pod of a gang on its planned node, or on another node.
    ObserveMember(usize, usize, Option<usize>),
    /// Deletes a pod of a gang.
    DeleteMember(usize, usize),
    /// Deletes a pod of a gang, and keeps its place.
    LoseMember(usize, usize),
    /// Restores a gang that was placed before the engine knew of it, with all pods on one node.
    Restore(usize, usize),
    /// Restarts a gang, and keeps its place for this long, except on one node.
    Keep(usize, Option<usize>, i64),
    /// Cancels the eviction of a gang. The gang cannot be a victim for this long.
    Stay(usize, i64),
    /// Reports a checkpoint of a gang, this long ago.
    Checkpoint(usize, i64),
    /// Restores the past usage of a queue.
    Recall(usize),
    /// Closes a limit until this time, or opens it again.
    Gate(usize, Option<Option<i64>>),
    /// Runs a cycle, this long after the previous one.
    Cycle(i64),
}

fn any_stop() -> impl Strategy<Value = QueueStop> {
    prop_oneof![
        17 => Just(QueueStop::None),
        2 => Just(QueueStop::Hold),
        1 => Just(QueueStop::HoldAndDrain),
    ]
}

fn any_preemption() -> impl Strategy<Value = PreemptionPolicy> {
    let within = prop_oneof![
        2 => Just(WithinQueuePolicy::Never),
        1 => Just(WithinQueuePolicy::LowerPriority),
        1 => Just(WithinQueuePolicy::LowerOrNewerEqualPriority),
    ];
    let reclaim = prop_oneof![
        2 => Just(ReclaimPolicy::Never),
        1 => Just(ReclaimPolicy::LowerPriority),
        1 => Just(ReclaimPolicy::Any),
    ];
    let borrow = prop_oneof![
        2 => Just(BorrowWithinPolicy::Never),
        1 => Just(BorrowWithinPolicy::LowerPriority { max_priority: None }),
        2 => any_fair_share(),
    ];
    (within, reclaim, borrow).prop_map(|(within_queue, reclaim, borrow_within)| PreemptionPolicy {
        within_queue,
        reclaim,
        borrow_within,
    })
}

fn any_flags() -> impl Strategy<Value = QueueFlags> {
    let flags = (
        any_stop(),
        prop::bool::ANY,
        prop::bool::weighted(0.2),
        any_runtime(),
        any_preemption(),
    );
    flags.prop_map(
        |(stop, below, no_backfill, default_runtime, preemption)| QueueFlags {
            stop,
            below,
            no_backfill,
            default_runtime,
            preemption,
        },
    )
}

pub fn limit_name(at: usize) -> LimitName {
    LimitName::new(format!("l{at}"))
}

/// Generates a draw on a limit. The limit decides the counted quantity, and each gang sets its own
/// maximum.
fn any_draw() -> impl Strategy<Value = LimitDraw> {
    let max = prop::option::weighted(0.8, 0..6_i64);
    (0..LIMITS, max, prop::bool::ANY).prop_map(|(at, max, refuses)| LimitDraw {
        refuses,
        limit: limit_name(at),
        of: match at {
            0 => LimitUnit::Gangs,
            4 => LimitUnit::Waiting,
            1 => LimitUnit::Devices,
            2 => LimitUnit::Resource {
                resource: ResourceName::new(GPU),
                flavor: None,
            },
            _ => LimitUnit::Resource {
                resource: ResourceName::new("cpu"),
                flavor: Some(FlavorName::default()),
            },
        },
        max,
    })
}

fn with_draws(mut gang: Gang, mut draws: Vec<LimitDraw>, surplus: bool) -> Gang {
    gang.surplus = surplus;
    draws.sort_by(|a, b| a.limit.cmp(&b.limit));
    draws.dedup_by(|a, b| a.limit == b.limit);
    gang.draws = draws;
    for group in &mut gang.groups {
        group.device = Some(ResourceName::new(GPU));
    }
    gang
}

pub fn any_event() -> impl Strategy<Value = Event> {
    let gang = (0..GANGS).prop_flat_map(|g| any_gang_with_topology(format!("w{g}"), NODES));
    let draws = prop_oneof![3 => Just(vec![]), 2 => prop::collection::vec(any_draw(), 1..3)];
    let merged = prop_oneof![3 => Just(0), 1 => 2..4_usize];
    let gang = (gang, merged).prop_map(|(gang, merged)| with_merged_groups(gang, merged));
    let gang = (gang, draws, prop::bool::weighted(0.3))
        .prop_map(|(gang, draws, surplus)| with_draws(gang, draws, surplus));
    let quota = prop_oneof![Just(None), (0..12_i64, 0..8_i64).prop_map(Some)];
    prop_oneof![
        4 => any_labelled_node(NODES).prop_map(Event::ApplyNode),
        1 => (0..NODES).prop_map(Event::DeleteNode),
        2 => (0..3_usize, 0..NODES, any_request()).prop_map(|(p, n, r)| Event::ApplyForeign(p, n, r)),
        1 => (0..3_usize).prop_map(Event::DeleteForeign),
        2 => (0..2_usize, quota.clone(), any_flags()).prop_map(|(q, n, f)| Event::ApplyQueue(q, n, f)),
        1 => quota.prop_map(Event::ApplyRoot),
        1 => Just(Event::DeleteRoot),
        1 => (0..2_usize).prop_map(Event::DeleteQueue),
        3 => (0..2_usize, prop::bool::weighted(0.8)).prop_map(|(t, all)| Event::ApplyTopology(t, all)),
        1 => (0..2_usize).prop_map(Event::DeleteTopology),
        6 => gang.prop_map(Event::ApplyGang),
        1 => (0..GANGS).prop_map(Event::DeleteGang),
        2 => (0..GANGS).prop_map(Event::RetireGang),
        1 => (0..GANGS, prop::option::of(0..9_i64)).prop_map(|(g, t)| Event::ReleaseGang(g, t)),
        3 => (0..GANGS, 0..9_usize, prop::option::weighted(0.1, 0..NODES))
            .prop_map(|(g, p, n)| Event::ObserveMember(g, p, n)),
        1 => (0..GANGS, 0..9_usize).prop_map(|(g, p)| Event::DeleteMember(g, p)),
        1 => (0..GANGS, 0..9_usize).prop_map(|(g, p)| Event::LoseMember(g, p)),
        1 => (0..GANGS, 0..NODES).prop_map(|(g, n)| Event::Restore(g, n)),
        1 => (0..GANGS, 0..9_i64).prop_map(|(g, t)| Event::Stay(g, t)),
        2 => (0..GANGS, prop::option::of(0..NODES), 0..9_i64)
            .prop_map(|(g, n, t)| Event::Keep(g, n, t)),
        1 => (0..GANGS, 0..9_i64).prop_map(|(g, t)| Event::Checkpoint(g, t)),
        1 => (0..2_usize).prop_map(Event::Recall),
        1 => (0..LIMITS, prop::option::of(prop::option::of(0..9_i64)))
            .prop_map(|(l, until)| Event::Gate(l, until)),
        5 => (0..4_i64).prop_map(Event::Cycle),
        1 => Just(Event::Cycle(600_000)),
    ]
}
