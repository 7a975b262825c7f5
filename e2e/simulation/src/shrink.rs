//! Shortens a script that breaks a rule.

use crate::script::{Act, ActScript, Priority, Script};

/// Returns a shorter script that still has the problem. `has_problem` runs a script.
#[must_use]
pub fn shrink(script: &Script, has_problem: impl Fn(&Script) -> bool) -> Script {
    let mut smallest = script.clone();
    loop {
        let shorter = shorter_scripts(&smallest).find(|shorter| has_problem(shorter));
        match shorter {
            Some(shorter) => smallest = shorter,
            None => return smallest,
        }
    }
}

/// Returns scripts that lack one thing each, the largest steps first.
fn shorter_scripts(script: &Script) -> impl Iterator<Item = Script> {
    let without_faults = removals(script, |script| &mut script.faults);
    let without_acts = removals(script, |script| &mut script.acts);
    let without_jobs = removals(script, |script| &mut script.jobs);
    let nodes = removals(script, |script| &mut script.nodes);
    let has_few = |script: &Script| {
        let has_nodes = !script.nodes.is_empty() || script.autoscaler.is_some();
        has_nodes && !script.jobs.is_empty()
    };
    let without_autoscaler = script.autoscaler.is_some().then(|| Script {
        autoscaler: None,
        ..script.clone()
    });
    without_faults
        .chain(without_acts)
        .chain(without_jobs)
        .chain(without_autoscaler)
        .chain(nodes)
        .chain(simpler_scripts(script))
        .filter(has_few)
}

/// Returns the script without each item of a list.
fn removals<T>(
    script: &Script,
    list: impl Fn(&mut Script) -> &mut Vec<T>,
) -> impl Iterator<Item = Script> {
    let count = list(&mut script.clone()).len();
    let script = script.clone();
    (0..count).map(move |index| {
        let mut shorter = script.clone();
        list(&mut shorter).remove(index);
        shorter
    })
}

/// Returns scripts with one simpler value each.
fn simpler_scripts(script: &Script) -> impl Iterator<Item = Script> {
    let mut simpler = Vec::new();
    let mut add = |change: &dyn Fn(&mut Script)| {
        let mut changed = script.clone();
        change(&mut changed);
        if changed != *script {
            simpler.push(changed);
        }
    };
    for index in 0..script.queues.len() {
        add(&|script| script.queues[index].preempts = false);
        // Nodes are ordered only by quota of their flavor.
        if script.autoscaler.is_none() {
            add(&|script| script.queues[index].gpus = None);
        }
    }
    add(&|script| script.network.request = 5);
    add(&|script| script.network.watch = 5);
    add(&|script| script.kubelets.start = 50);
    add(&|script| script.kubelets.stop = 50);
    add(&|script| script.kubelets.collect = 50);
    for index in 0..script.jobs.len() {
        add(&|script| script.jobs[index].failures = 0);
        add(&|script| script.jobs[index].priority = Priority::Normal);
        add(&|script| script.jobs[index].run_seconds.truncate(1));
        add(&|script| script.jobs[index].elastic = None);
        add(&|script| {
            if script.jobs[index].elastic.is_none() {
                script.jobs[index].replicas = script.jobs[index].replicas.min(2);
            }
        });
    }
    add(&|script| script.lacks_leader_policy = false);
    add(&|script| {
        if let Some(autoscaler) = &mut script.autoscaler {
            autoscaler.arrival = 2000;
            autoscaler.job_controller = 50;
            autoscaler.after_seconds = 0;
        }
    });
    // One queue, if all jobs and acts are about the first one.
    add(&|script| {
        let is_of_other = |act: &ActScript| matches!(act.act, Act::SetQuota(queue, _) if queue > 0);
        if script.jobs.iter().all(|job| job.queue == 0) && !script.acts.iter().any(is_of_other) {
            script.queues.truncate(1);
        }
    });
    for index in 0..script.jobs.len() {
        add(&|script| script.jobs[index].queue = 0);
    }
    // Fewer replicas, if no fault is about the last one.
    add(&|script| {
        let last = script.replicas - 1;
        if last > 0
            && script
                .faults
                .iter()
                .all(|fault| fault.replica() != Some(last))
        {
            script.replicas = last;
        }
    });
    simpler.into_iter()
}
