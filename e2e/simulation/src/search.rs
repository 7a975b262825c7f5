//! All histories of small scripts with a few faults of single writes.
//!
//! A seed draws its faults. The search leaves none out: it takes a small script, and gives each write
//! of the operator each fault in turn, then each two writes. The same idea bounds the deviations from
//! the usual order in delay-bounded scheduling (Emmi, Qadeer, Rakamarić: "Delay-bounded scheduling",
//! POPL 2011).

use crate::script::{
    Act, ActScript, AutoscalerScript, ElasticScript, Fault, FaultScript, JobScript, KubeletDelays,
    NetworkDelays, Priority, QueueScript, Script, WriteChoice, WriteFault, WriteKind,
};

/// Second at which the faults end: processes start again, and watches go on.
const FAULT_SECONDS: u64 = 40;

/// Returns the small scripts. Each has one job of two pods, and two replicas of the operator.
#[must_use]
pub fn small_scripts() -> Vec<Script> {
    let act = |at, act| ActScript {
        at,
        after: None,
        act,
    };
    let job = |name: &str, at| JobScript {
        name: name.to_owned(),
        queue: 0,
        priority: Priority::Normal,
        at,
        replicas: 2,
        elastic: None,
        gpus: 4,
        run_seconds: vec![10],
        failures: 0,
        grace_seconds: 5,
        min_runtime_seconds: 0,
    };
    let first = job("first", 10);
    let script = |jobs: Vec<JobScript>, acts| Script {
        seed: 1,
        nodes: vec![4, 4],
        rack_nodes: 0,
        replicas: 2,
        lease_seconds: 4,
        lacks_leader_policy: false,
        autoscaler: None,
        queues: vec![QueueScript {
            gpus: None,
            preempts: true,
        }],
        network: NetworkDelays {
            request: 2,
            watch: 2,
        },
        kubelets: KubeletDelays {
            start: 50,
            stop: 50,
            collect: 50,
        },
        jobs,
        acts,
        faults: Vec::new(),
        calm_from: FAULT_SECONDS,
    };
    let restarts = JobScript {
        failures: 1,
        ..first.clone()
    };
    let preemptor = JobScript {
        priority: Priority::High,
        ..job("second", 15)
    };
    let slices = JobScript {
        elastic: Some(ElasticScript {
            min_replicas: 1,
            slice_pods: Some(1),
        }),
        run_seconds: vec![40],
        ..first.clone()
    };
    vec![
        script(vec![restarts], Vec::new()),
        script(
            vec![first.clone()],
            vec![act(15, Act::Delete("first".into()))],
        ),
        script(
            vec![first.clone()],
            vec![
                act(15, Act::Suspend("first".into())),
                act(18, Act::Resume("first".into())),
            ],
        ),
        script(vec![first.clone(), preemptor], Vec::new()),
        Script {
            nodes: Vec::new(),
            queues: vec![QueueScript {
                gpus: Some(8),
                preempts: true,
            }],
            autoscaler: Some(autoscaler()),
            ..script(vec![first], Vec::new())
        },
        // The second slice replaces the first one in the gang, and the first one returns.
        Script {
            nodes: vec![4, 4, 4],
            rack_nodes: 1,
            ..script(
                vec![slices],
                vec![act(20, Act::Quarantine(0)), act(35, Act::Release(0))],
            )
        },
    ]
}

/// Returns an autoscaler whose nodes come in time.
fn autoscaler() -> AutoscalerScript {
    AutoscalerScript {
        gpus: 4,
        stock: 4,
        arrival: 5000,
        removal_seconds: 60,
        job_controller: 50,
        max_nodes: 4,
        timeout_seconds: 120,
        idle_seconds: 120,
        after_seconds: 0,
        preempts_first: false,
    }
}

/// Returns the script with each combination of at most `count` faults of its first `writes` writes,
/// the single faults first.
pub fn with_faults(
    script: &Script,
    writes: u64,
    count: usize,
) -> impl Iterator<Item = Script> + use<> {
    let script = script.clone();
    let places = writes * FAULTS;
    let tuples = (1..=count).flat_map(move |count| increasing_tuples(places, count));
    tuples.map(move |tuple| Script {
        faults: tuple.into_iter().map(fault).collect(),
        ..script.clone()
    })
}

/// Number of different faults of a write.
const FAULTS: u64 = 7;

/// Returns the fault at a place. The places of one write follow one another.
fn fault(place: u64) -> FaultScript {
    let fault = match place % FAULTS {
        0 => WriteFault::LoseRequest,
        1 => WriteFault::LoseAnswer,
        2 => WriteFault::CrashBefore,
        3 => WriteFault::CrashAfter,
        4 => WriteFault::StallWatches("trainingjobs".into()),
        5 => WriteFault::StallWatches("podgroups".into()),
        _ => WriteFault::StallWatches("pods".into()),
    };
    FaultScript {
        at: 0,
        seconds: FAULT_SECONDS,
        fault: Fault::OnWrite(
            WriteChoice {
                kind: WriteKind::Any,
                number: place / FAULTS + 1,
            },
            fault,
        ),
    }
}

/// Returns all tuples of this length of increasing numbers below `limit`.
fn increasing_tuples(limit: u64, length: usize) -> Box<dyn Iterator<Item = Vec<u64>> + Send> {
    match length {
        0 => Box::new(std::iter::once(Vec::new())),
        _ => Box::new((0..limit).flat_map(move |last| {
            increasing_tuples(last, length - 1).map(move |mut tuple| {
                tuple.push(last);
                tuple
            })
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn combinations_are_complete_and_differ() {
        let script = &small_scripts()[0];
        let scripts: Vec<Script> = with_faults(script, 3, 2).collect();
        let places = 3 * FAULTS as usize;
        assert_eq!(scripts.len(), places + places * (places - 1) / 2);
        let distinct: BTreeSet<String> = scripts
            .iter()
            .map(|script| serde_json::to_string(script).unwrap())
            .collect();
        assert_eq!(distinct.len(), scripts.len());
        assert!(
            scripts[..places]
                .iter()
                .all(|script| script.faults.len() == 1)
        );
    }
}
