//! Tests of victims across quota, queues and racks: the victims suffice, none is unnecessary, and
//! there is a claim on each. The cases of Kueue's reclaim tests follow.

use crate::common::*;
use crate::preemption::queues::{RECLAIM, queue_below};
use crate::preemption::{run_cycle_at, seconds};
use proptest::prelude::*;
use trellis_scheduler::{
    BorrowWithinPolicy, Engine, Gang, GroupName, NodeName, Placement, PreemptionPolicy,
    PreemptionReason, QueueName, ReclaimPolicy, Topology, TopologyLevel, TopologyName,
    TopologyRequest, TrialPlacement, WithinQueuePolicy,
};

const TEAMS: [&str; 3] = ["a", "b", "c"];
const NODES: [(&str, &str); 4] = [("n0", "r0"), ("n1", "r0"), ("n2", "r1"), ("n3", "r1")];

#[derive(Clone, Debug)]
struct RunningGang {
    team: usize,
    node: usize,
    gpus: i64,
    priority: i32,
    preemptible: bool,
    since: i64,
}

#[derive(Clone, Debug)]
struct Case {
    nominal: [i64; 3],
    running: Vec<RunningGang>,
    pods: u32,
    gpus_per_pod: i64,
    required_rack: bool,
    within: bool,
}

fn any_case() -> impl Strategy<Value = Case> {
    let held = (
        0..3_usize,
        0..4_usize,
        1..5_i64,
        0..3_i32,
        any::<bool>(),
        0..90_i64,
    )
        .prop_map(
            |(team, node, gpus, priority, preemptible, since)| RunningGang {
                team,
                node,
                gpus,
                priority,
                preemptible,
                since,
            },
        );
    (
        [0..9_i64, 0..9_i64, 0..9_i64],
        prop::collection::vec(held, 1..8),
        (1..4_u32, 1..5_i64),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(nominal, mut held, (pods, each), close, within)| {
            let mut free = [4_i64; 4];
            held.retain(|h| {
                let fits = free[h.node] >= h.gpus;
                free[h.node] -= if fits { h.gpus } else { 0 };
                fits
            });
            Case {
                nominal,
                running: held,
                pods,
                gpus_per_pod: each,
                required_rack: close,
                within,
            }
        })
}

impl Case {
    fn name(at: usize) -> String {
        format!("held{at}")
    }

    /// Returns an engine without some of the holders. Gangs preempt only if `may` is true.
    fn engine(&self, gone: &[String], may: bool) -> Engine {
        let mut engine = engine([]);
        engine.apply_topology(Topology {
            name: TopologyName::new("hall"),
            levels: vec![TopologyLevel::from_label("rack")],
        });
        let policy = PreemptionPolicy {
            within_queue: if self.within {
                WithinQueuePolicy::LowerPriority
            } else {
                WithinQueuePolicy::Never
            },
            ..RECLAIM
        };
        let policy = if may {
            policy
        } else {
            PreemptionPolicy::default()
        };
        engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
        for (team, nominal) in TEAMS.iter().zip(self.nominal) {
            engine.apply_queue(queue_below(team, Some("all"), nominal, policy));
        }
        for (node, rack) in NODES {
            engine.apply_node(label(gpu_node(node, 4), "rack", rack));
        }
        engine.advance(seconds(100));
        for (at, held) in self.running.iter().enumerate() {
            if gone.contains(&Self::name(at)) {
                continue;
            }
            let gang = Gang {
                queue: QueueName::new(TEAMS[held.team]),
                priority: held.priority,
                preemptible: held.preemptible,
                ..workers(&Self::name(at), 1, gpu(1, held.gpus))
            };
            let runs = vec![(NodeName::new(NODES[held.node].0), 1)];
            let on: Placement = [(GroupName::new("worker"), runs)].into_iter().collect();
            engine.restore_gang(gang, on, seconds(held.since));
        }
        engine
    }

    fn preemptor(&self) -> Gang {
        let mut gang = Gang {
            queue: QueueName::new("a"),
            priority: 1,
            ..workers("w", self.pods, gpu(1, self.gpus_per_pod))
        };
        gang.topology = self
            .required_rack
            .then(|| TopologyRequest::required("rack"));
        gang
    }

    fn trial(&self, gone: &[String], may: bool) -> Option<TrialPlacement> {
        let mut engine = self.engine(gone, may);
        engine.try_gang(&self.preemptor(), seconds(100)).ok()
    }

    fn usage(&self, team: usize) -> i64 {
        let of = self.running.iter().filter(|held| held.team == team);
        of.map(|held| held.gpus).sum()
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn victims_suffice_across_queues_and_each_is_needed(case in any_case()) {
        let alone = case.trial(&[], false);
        let Some(outlook) = case.trial(&[], true) else {
            prop_assert!(alone.is_none(), "it fits without");
            return Ok(());
        };
        let named = outlook.victims.iter().map(|v| {
            v.gang.as_str().trim_start_matches("team/").to_owned()
        });
        let named: Vec<String> = named.collect();
        prop_assert_eq!(named.is_empty(), alone.is_some());
        prop_assert!(case.trial(&named, false).is_some(), "enough: {named:?}");
        let needs = i64::from(case.pods) * case.gpus_per_pod;
        // Returns the usage of team `a` without these gangs.
        let holds = |gone: &[String]| {
            let own = (0..case.running.len()).filter(|at| case.running[*at].team == 0);
            let leaving = own.filter(|at| gone.contains(&Case::name(*at)));
            case.usage(0) - leaving.map(|at| case.running[at].gpus).sum::<i64>()
        };
        let reclaims = outlook.victims.iter().any(|v| v.reason == PreemptionReason::Borrows);
        for spared in &named {
            let others: Vec<String> = named.iter().filter(|v| *v != spared).cloned().collect();
            // If this victim stayed, team `a` would borrow the quota that it reclaims.
            let borrows = reclaims && holds(&others) + needs > case.nominal[0];
            let fits = case.trial(&others, false).is_some();
            prop_assert!(borrows || !fits, "{spared} of {named:?}");
        }
        for victim in &outlook.victims {
            let at = (0..case.running.len()).find(|at| victim.gang == id(&Case::name(*at))).unwrap();
            let held = &case.running[at];
            let nominal = case.nominal[held.team];
            if !held.preemptible {
                let kept = case.running.iter().filter(|h| h.team == held.team && !h.preemptible);
                prop_assert!(kept.map(|h| h.gpus).sum::<i64>() > nominal, "{held:?} is guaranteed");
            }
            if victim.reason == PreemptionReason::Borrows {
                prop_assert!(held.team != 0 && case.usage(held.team) > nominal);
                prop_assert!(holds(&named) + needs <= case.nominal[0], "it would borrow itself");
            } else {
                prop_assert!(held.team == 0 && held.priority < 1 && case.within);
            }
        }
    }
}

/// The preemptor, the holders, the policy, and the victims.
type Row<'a> = (
    &'a str,
    [i64; 3],
    &'a [(&'a str, i32, &'a str, i64)],
    PreemptionPolicy,
    (i32, i64),
    &'a str,
);

/// Cases of Kueue's `preemption_test.go`, with its names. Cohort `all` has cluster queues `a`, `b`
/// and `c`, and one workload `w` comes to `a`.
#[test]
fn victims_match_kueues_preemption_tests() {
    let never = PreemptionPolicy::default();
    let any = RECLAIM;
    let lower = PreemptionPolicy {
        reclaim: ReclaimPolicy::LowerPriority,
        ..never
    };
    let within = PreemptionPolicy {
        within_queue: WithinQueuePolicy::LowerPriority,
        ..any
    };
    let borrow = PreemptionPolicy {
        borrow_within: BorrowWithinPolicy::LowerPriority {
            max_priority: Some(0),
        },
        ..any
    };
    let rows: [Row<'_>; 10] = [
        (
            "no policy, no preemption",
            [4, 4, 0],
            &[("b", 0, "b1", 8)],
            never,
            (5, 4),
            "-w QuotaExceeded",
        ),
        (
            "reclaim quota from borrower",
            [4, 4, 0],
            &[("b", 0, "b1", 4), ("b", 0, "b2", 4)],
            any,
            (0, 4),
            "!w b1",
        ),
        (
            "the lowest priority of the borrower goes",
            [4, 4, 0],
            &[("b", 1, "b1", 4), ("b", 0, "b2", 4)],
            any,
            (0, 4),
            "!w b2",
        ),
        (
            "reclaim only lower priority",
            [4, 4, 0],
            &[("b", 5, "b1", 8)],
            lower,
            (5, 4),
            "-w QuotaExceeded",
        ),
        (
            "reclaim lower priority",
            [4, 4, 0],
            &[("b", 4, "b1", 8)],
            lower,
            (5, 4),
            "!w b1",
        ),
        (
            "not from who is within nominal",
            [4, 4, 0],
            &[("a", 5, "a1", 4), ("b", 0, "b1", 4)],
            any,
            (5, 4),
            "-w QuotaExceeded",
        ),
        (
            "what is owed once its own have left is reclaimed along with them",
            [4, 4, 0],
            &[("a", 0, "a1", 2), ("b", 5, "b1", 6)],
            within,
            (1, 4),
            "!w a1 b1",
        ),
        (
            "no reclaim to borrow",
            [2, 4, 2],
            &[("b", 0, "b1", 8)],
            any,
            (5, 4),
            "-w QuotaExceeded",
        ),
        (
            "borrow from lower priority",
            [2, 4, 2],
            &[("b", 0, "b1", 8)],
            borrow,
            (5, 4),
            "!w b1",
        ),
        (
            "but not above the threshold",
            [2, 4, 2],
            &[("b", 1, "b1", 8)],
            borrow,
            (5, 4),
            "-w QuotaExceeded",
        ),
    ];
    for (name, nominal, held, policy, (priority, gpus), expected) in rows {
        let mut engine = engine([gpu_node("n0", 64)]);
        engine.apply_queue(queue_below("all", None, 0, PreemptionPolicy::default()));
        for (team, nominal) in TEAMS.iter().zip(nominal) {
            engine.apply_queue(queue_below(team, Some("all"), nominal, policy));
        }
        let in_queue = |queue: &str, priority, gang: &str, gpus| Gang {
            queue: QueueName::new(queue),
            priority,
            ..workers(gang, 1, gpu(1, gpus))
        };
        for (queue, priority, gang, gpus) in held {
            let runs = vec![(NodeName::new("n0"), 1)];
            let on: Placement = [(GroupName::new("worker"), runs)].into_iter().collect();
            engine.restore_gang(in_queue(queue, *priority, gang, *gpus), on, seconds(0));
        }
        engine.apply_gang(in_queue("a", priority, "w", gpus));
        assert_eq!(run_cycle_at(&mut engine, seconds(1)), [expected], "{name}");
    }
}
