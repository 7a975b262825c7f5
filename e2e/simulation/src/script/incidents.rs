//! Small histories around one event in the life of a gang. On the few jobs and nodes, one fault or act
//! at the wrong moment decides, where a crowd of jobs hides it.

mod encounters;
mod recurrences;

use encounters::{add_act, add_fault, add_write_faults, any_write, crash};
use recurrences::recur;

use super::from_seed::is_leader_policy_missing;
use super::{
    Act, ActScript, AfterWrite, Fault, FaultScript, JobScript, KubeletDelays, NetworkDelays,
    Priority, QueueScript, Script, WriteChoice, WriteKind,
};
use crate::random::RandomSequence;

/// GPUs of the gang of the incident.
const GPUS: u32 = 8;

/// Makes a script with one incident.
pub(super) fn incident(seed: u64, random: &mut RandomSequence) -> Script {
    let mut script = Script {
        seed,
        replicas: random.between(1, 2) as usize,
        lease_seconds: *random.choose(&[4, 4, 15]),
        lacks_leader_policy: is_leader_policy_missing(random),
        autoscaler: None,
        queues: vec![QueueScript {
            gpus: None,
            preempts: true,
        }],
        network: NetworkDelays {
            request: *random.choose(&[5, 5, 50, 500]),
            watch: *random.choose(&[5, 5, 100, 3000, 20_000]),
        },
        kubelets: KubeletDelays {
            start: *random.choose(&[50, 50, 20_000]),
            stop: *random.choose(&[50, 60_000]),
            collect: *random.choose(&[50, 5000]),
        },
        nodes: random.choose(&[vec![GPUS], vec![4, 4]]).clone(),
        rack_nodes: 0,
        jobs: Vec::new(),
        acts: Vec::new(),
        faults: Vec::new(),
        calm_from: 0,
    };
    match random.between(0, 9) {
        0 | 1 => start(random, &mut script),
        2..=4 => departure(random, &mut script),
        5 => preemption(random, &mut script),
        6 => long_run(random, &mut script),
        _ => recur(random, &mut script),
    }
    let last = script.acts.iter().map(|act| act.at);
    let last = last.chain(script.jobs.iter().map(|job| job.at)).max();
    script.calm_from = last.unwrap_or_default() + 60;
    script
}

/// A gang starts. Faults and acts meet its first writes.
fn start(random: &mut RandomSequence, script: &mut Script) {
    let at = random.between(5, 30);
    let run = *random.choose(&[1, 3, 20, 60]);
    script.jobs.push(gang(random, "job-0", at, run));
    if random.chance(400) {
        // It waits until the first gang has left its nodes, or its quota.
        let next = at + random.between(0, 2);
        script.jobs.push(gang(random, "job-1", next, 20));
        if random.chance(700) {
            script.nodes.push(GPUS);
            script.queues[0].gpus = Some(GPUS);
        }
    }
    let write = any_write(random);
    if random.chance(800) {
        add_write_faults(random, 1000 * at, write, &mut script.faults);
    }
    if random.chance(500) {
        let at_write = match random.chance(700) {
            true => write,
            false => any_write(random),
        };
        add_act(random, at, Some(at_write), &mut script.acts);
    }
    if random.chance(200) {
        script.faults.push(FaultScript {
            at: 1000 * at,
            seconds: 10,
            fault: Fault::Slow(random.between(1000, 3000)),
        });
    }
}

/// A gang leaves its place, while another one waits for its quota or its nodes.
fn departure(random: &mut RandomSequence, script: &mut Script) {
    if random.chance(700) {
        script.nodes.push(GPUS);
        script.queues[0].gpus = Some(GPUS);
    }
    script.kubelets.stop = *random.choose(&[50, 60_000, 60_000]);
    let at = random.between(5, 30);
    let run = *random.choose(&[20, 100, 200]);
    let mut first = gang(random, "job-0", at, run);
    first.grace_seconds = *random.choose(&[5, 90, 90]);
    first.failures = random.chance(300).into();
    script.jobs.push(first);
    script.jobs.push(gang(random, "job-1", at + 5, 10));
    let leaves_at = at + *random.choose(&[15, 20, run]);
    if random.chance(300) {
        leave_twice(random, leaves_at, &mut script.acts);
        return;
    }
    for _ in 0..random.between(1, 2) {
        let write = random.chance(500).then(|| any_write(random));
        add_act(random, leaves_at, write, &mut script.acts);
    }
    add_fault(random, leaves_at, script);
}

/// The gang restarts, and its user ends it before its last pod has stopped.
fn leave_twice(random: &mut RandomSequence, at: u64, acts: &mut Vec<ActScript>) {
    let job = || "job-0".to_owned();
    let first = match random.between(0, 2) {
        0 => Act::Quarantine(0),
        _ => Act::DeletePod(job()),
    };
    let second = match random.chance(500) {
        true => Act::Suspend(job()),
        false => Act::Delete(job()),
    };
    let after = |millis| AfterWrite {
        write: WriteChoice {
            kind: WriteKind::PodDeletion,
            number: 1,
        },
        millis,
    };
    let restore = matches!(first, Act::Quarantine(_)).then_some(Act::Release(0));
    let millis = random.log_uniform_millis(100, 5000).as_millis() as u64;
    acts.push(ActScript {
        at,
        after: None,
        act: first,
    });
    acts.push(ActScript {
        at,
        after: Some(after(millis)),
        act: second,
    });
    acts.extend(restore.map(|act| ActScript {
        at: at + 120,
        after: None,
        act,
    }));
}

/// A gang of high priority takes the place of others. Some of them stop slowly, or have a minimum
/// runtime that a new leader must know.
fn preemption(random: &mut RandomSequence, script: &mut Script) {
    let at = random.between(5, 20);
    script.kubelets.stop = *random.choose(&[50, 60_000, 60_000]);
    let count = random.between(1, 2) as u32;
    for index in 0..count {
        let mut victim = gang(random, &format!("job-{index}"), at, 200);
        victim.replicas = (victim.replicas / count).max(1);
        victim.gpus = GPUS / count / victim.replicas;
        victim.grace_seconds = *random.choose(&[1, 90]);
        if random.chance(300) {
            victim.run_seconds = vec![300];
            victim.min_runtime_seconds = *random.choose(&[120, 240]);
        }
        script.jobs.push(victim);
    }
    let preempts_at = at + *random.choose(&[1, 15, 30, 45]);
    if random.chance(300) {
        script.faults.push(FaultScript {
            at: 1000 * (at + random.between(5, 30)),
            seconds: random.between(1, 8),
            fault: Fault::Crash(0),
        });
    }
    let mut preemptor = gang(random, "preemptor", preempts_at, 10);
    preemptor.priority = Priority::High;
    script.jobs.push(preemptor);
    add_fault(random, preempts_at, script);
    if random.chance(300) {
        let write = any_write(random);
        add_act(random, preempts_at, Some(write), &mut script.acts);
    }
}

/// A gang runs for longer than operators may lag. Then an act or a long absence of all leaders meets it.
fn long_run(random: &mut RandomSequence, script: &mut Script) {
    let at = 10;
    let mut job = gang(random, "job-0", at, 450);
    job.run_seconds = vec![450, 20];
    script.jobs.push(job);
    if random.chance(500) {
        script.replicas = 1;
        let write = WriteChoice {
            kind: WriteKind::Journal,
            number: random.between(2, 3),
        };
        script.faults.push(FaultScript {
            at: 1000 * at,
            seconds: random.between(120, 240),
            fault: Fault::OnWrite(write, crash(random)),
        });
    } else {
        let act_at = at + random.between(310, 350);
        script.kubelets.stop = 50;
        script.network.request = *random.choose(&[5, 500, 1000]);
        script.acts.push(ActScript {
            at: act_at,
            after: None,
            act: Act::DeletePodGroup("job-0".to_owned()),
        });
        let write = WriteChoice {
            kind: WriteKind::JobStatus,
            number: random.between(1, 2),
        };
        add_write_faults(random, 1000 * act_at, write, &mut script.faults);
    }
}

/// Returns a gang that needs all GPUs of an incident.
fn gang(random: &mut RandomSequence, name: &str, at: u64, run: u64) -> JobScript {
    let gpus = *random.choose(&[1, 2, 4, 4]);
    JobScript {
        name: name.to_owned(),
        queue: 0,
        priority: Priority::Normal,
        at,
        replicas: GPUS / gpus,
        elastic: None,
        gpus,
        run_seconds: vec![run],
        failures: 0,
        grace_seconds: *random.choose(&[1, 5, 90]),
        min_runtime_seconds: 0,
    }
}
