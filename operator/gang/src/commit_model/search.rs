//! The search: all states that can follow, and the end that each must be able to reach.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::leader::{Decision, decide, give_up_plan, open_plan};
use super::world::{Arrival, Bounds, Fence, PODS, Phase, Pod, Request, World};

/// Steps without a fault after which a gang must be at its end.
const MAX_STEPS_TO_THE_END: usize = 60;

/// The extent of a search.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) states: usize,
    pub(super) transitions: usize,
    /// Transitions to the farthest state.
    pub(super) depth: usize,
}

/// A transition, in words for the trace, and its result.
type Transition = (String, Result<World, String>);

/// The hash of a state. Two states with one fingerprint count as one: among ten million states, the
/// chance of such a pair is about 3 in a million.
type Fingerprint = u64;

fn fingerprint(world: &World) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Visits every state within the bounds.
///
/// # Errors
/// The transitions to a state that breaks a promise.
pub(super) fn search(bounds: &Bounds) -> Result<Report, String> {
    let start = World::new();
    let mut parents = HashMap::from([(fingerprint(&start), None)]);
    let mut known_good = HashSet::new();
    let mut open = VecDeque::from([(start, 0)]);
    let mut report = Report::default();
    while let Some((world, depth)) = open.pop_front() {
        report.states += 1;
        report.depth = report.depth.max(depth);
        let own = fingerprint(&world);
        if let Err(problem) = check_end(&world, &mut known_good) {
            return Err(format!("{}{problem}", trace(&parents, own, bounds)));
        }
        for (words, next) in transitions(&world, bounds) {
            report.transitions += 1;
            let next = next
                .map_err(|problem| format!("{}{words}\n{problem}", trace(&parents, own, bounds)))?;
            if let Entry::Vacant(entry) = parents.entry(fingerprint(&next)) {
                entry.insert(Some(own));
                open.push_back((next, depth + 1));
            }
        }
    }
    Ok(report)
}

/// Writes the transitions to a state, one a line, and the state.
fn trace(
    parents: &HashMap<Fingerprint, Option<Fingerprint>>,
    end: Fingerprint,
    bounds: &Bounds,
) -> String {
    let path = std::iter::successors(Some(end), |at| parents.get(at).copied().flatten());
    let mut path: Vec<Fingerprint> = path.collect();
    path.pop();
    let mut world = World::new();
    let mut lines = String::new();
    for state in path.into_iter().rev() {
        let mut all = transitions(&world, bounds).into_iter();
        let step = all.find_map(|(words, next)| {
            let next = next.ok().filter(|next| fingerprint(next) == state)?;
            Some((words, next))
        });
        let Some((words, next)) = step else { break };
        lines.push_str(&format!("{words}\n"));
        world = next;
    }
    format!("{lines}in {world:?}\n")
}

/// Returns all transitions from a state.
fn transitions(world: &World, bounds: &Bounds) -> Vec<Transition> {
    let mut all = Vec::new();
    all.extend(leader_step(world, bounds));
    all.extend(deliveries(world).map(|(words, next)| (words, Ok(next))));
    all.extend(kubelet_steps(world).map(|(words, next)| (words, Ok(next))));
    for (sender, request) in &world.late {
        let mut next = world.clone();
        next.late.remove(&(*sender, *request));
        let words = match request {
            Request::Journal { .. } => format!("late journal write arrives: {request:?}"),
            _ => format!("late request arrives: {request:?}"),
        };
        let result = next.carry_out(*sender, *request, Arrival::Late, bounds.fence);
        all.push((words, result.map(|_| next)));
    }
    if world.takeovers < bounds.takeovers {
        let mut next = world.clone();
        next.takeovers += 1;
        let epoch = next.leader.epoch;
        next.late
            .extend(in_flight(world).into_iter().map(|request| (epoch, request)));
        next.elect();
        all.push(("another replica takes over".to_owned(), Ok(next)));
    }
    if world.losses < bounds.losses
        && let Some(request) = world.leader.task.first()
    {
        let mut next = world.clone();
        next.losses += 1;
        next.late.insert((world.leader.epoch, *request));
        all.push((format!("the answer to {request:?} is lost"), Ok(next)));
    }
    if world.acts < bounds.acts {
        all.extend(acts(world).map(|(words, mut next)| {
            next.acts += 1;
            (words, Ok(next))
        }));
    }
    all
}

/// Returns the requests that may be on their way: all creates and deletes of the task, which run at
/// once, or its only write of the journal.
fn in_flight(world: &World) -> Vec<Request> {
    let task = &world.leader.task;
    match task.first() {
        Some(journal @ Request::Journal { .. }) => vec![*journal],
        _ => {
            let is_journal = |request: &&Request| matches!(request, Request::Journal { .. });
            task.iter().filter(|r| !is_journal(r)).copied().collect()
        }
    }
}

/// The leader sends the next request of its task, or decides on its next task.
fn leader_step(world: &World, bounds: &Bounds) -> Option<Transition> {
    let mut next = world.clone();
    if !world.leader.task.is_empty() {
        let request = next.leader.task.remove(0);
        let sent = next.carry_out(world.leader.epoch, request, Arrival::AtOnce, bounds.fence);
        let words = format!("leader {}: {request:?}", world.leader.epoch);
        return Some((
            words,
            sent.map(|accepted| {
                hear(&mut next, request, accepted);
                next
            }),
        ));
    }
    match decide(world) {
        Decision::Wait => return None,
        Decision::Send(task) if task.is_empty() => return None,
        Decision::Send(task) => {
            if let [Request::Journal { journal, .. }] = task.as_slice()
                && let Err(problem) = world.check_decision(*journal)
            {
                return Some((
                    format!("leader {} decides", world.leader.epoch),
                    Err(problem),
                ));
            }
            next.leader.task = task;
        }
        Decision::Place if world.job.was_placed => {
            let problem = "an attempt is placed a second time".to_owned();
            return Some((
                format!("leader {} decides", world.leader.epoch),
                Err(problem),
            ));
        }
        Decision::Place => {
            let plan = u8::try_from(next.plans.len()).unwrap();
            if plan >= bounds.plans {
                return None;
            }
            next.plans.push(world.job.attempt);
            next.leader.task = open_plan(&next, plan).into_iter().collect();
        }
        Decision::EndAttempt => {
            next.job.attempt += 1;
            next.job.was_placed = false;
        }
    }
    let words = format!(
        "leader {} decides: {:?}",
        world.leader.epoch, next.leader.task
    );
    Some((words, Ok(next)))
}

/// The leader hears the answer to a request. A refused write of the journal ends its task: it looks
/// again.
fn hear(world: &mut World, request: Request, accepted: bool) {
    match request {
        // A refused create is read: the pod of the plan may be there from an earlier try.
        Request::Create { index, plan, .. } => {
            let there = world.pods[usize::from(index)];
            world.leader.pods[usize::from(index)] = there;
            if there.is_none_or(|pod| pod.plan != plan) {
                world.leader.task = give_up_plan(world).into_iter().collect();
            }
        }
        Request::Delete { index, incarnation } => {
            world.leader.asked.insert((index, incarnation));
        }
        Request::Journal { .. } if accepted => {
            world.leader.see_journal(world.journal, world.version);
            world.leader.must_leave &= world.journal.phase == Phase::Placed;
        }
        Request::Journal { .. } => {
            world.leader.see_journal(world.journal, world.version);
            world.leader.task.clear();
        }
    }
}

/// Watches show the leader what has changed.
fn deliveries(world: &World) -> impl Iterator<Item = (String, World)> {
    let journal = (world.leader.version != world.version).then(|| {
        let mut next = world.clone();
        next.leader.see_journal(world.journal, world.version);
        ("a watch shows the journal".to_owned(), next)
    });
    let pods = (0..PODS).filter(|index| world.leader.pods[*index] != world.pods[*index]);
    let pods = pods.map(|index| {
        let mut next = world.clone();
        next.leader.pods[index] = world.pods[index];
        (format!("a watch shows pod {index}"), next)
    });
    journal.into_iter().chain(pods)
}

/// Kubelets stop pods, and the controller records a placement or the end of an attempt.
fn kubelet_steps(world: &World) -> impl Iterator<Item = (String, World)> {
    let stops = (0..PODS).filter(|index| world.pods[*index].is_some_and(|pod| pod.is_stopping));
    let stops = stops.map(|index| {
        let mut next = world.clone();
        next.pods[index] = None;
        (format!("pod {index} has stopped"), next)
    });
    let view = &world.leader;
    let placed_attempt = view
        .journal
        .plan
        .filter(|_| view.journal.phase == Phase::Placed);
    let placed_attempt = placed_attempt.map(|plan| world.plans[usize::from(plan)]);
    let is_placed = placed_attempt == Some(world.job.attempt) && !world.job.is_suspended;
    let recorded = (is_placed && !world.job.was_placed).then(|| {
        let mut next = world.clone();
        next.job.was_placed = true;
        ("the status says that the gang is placed".to_owned(), next)
    });
    let is_broken = view
        .pods
        .iter()
        .any(|pod| pod.is_none_or(|pod| !pod.is_live()));
    let ended = (is_placed && world.job.was_placed && is_broken).then(|| {
        let mut next = world.clone();
        next.job.attempt += 1;
        next.job.was_placed = false;
        (
            "the status says that the attempt has failed".to_owned(),
            next,
        )
    });
    stops.chain(recorded).chain(ended)
}

/// Users, kubelets, other gangs and the clock act.
fn acts(world: &World) -> impl Iterator<Item = (String, World)> {
    let mut all = Vec::new();
    for index in 0..PODS {
        if let Some(pod) = world.pods[index].filter(|pod| pod.is_live()) {
            let mut next = world.clone();
            next.pods[index] = Some(Pod {
                has_failed: true,
                ..pod
            });
            all.push((format!("pod {index} fails"), next));
            let mut next = world.clone();
            next.pods[index] = Some(Pod {
                is_stopping: true,
                ..pod
            });
            all.push((format!("a user deletes pod {index}"), next));
        }
    }
    let mut next = world.clone();
    next.job.is_suspended = !world.job.is_suspended;
    if !next.job.is_suspended {
        next.job.attempt += 1;
        next.job.was_placed = false;
    }
    let act = match next.job.is_suspended {
        true => "suspends",
        false => "resumes",
    };
    all.push((format!("the user {act} the job"), next));
    if world.journal.phase == Phase::Placed && !world.leader.must_leave {
        let mut next = world.clone();
        next.leader.must_leave = true;
        all.push(("another gang needs the place".to_owned(), next));
    }
    if world.journal.phase != Phase::Pending {
        let mut next = world.clone();
        next.journal = World::new().journal;
        next.version += 1;
        all.push(("a user deletes the PodGroup".to_owned(), next));
    }
    if let Some(plan) = world
        .journal
        .plan
        .filter(|plan| !world.expired.contains(plan))
    {
        let mut next = world.clone();
        next.expired.insert(plan);
        all.push((format!("the deadline of plan {plan} passes"), next));
    }
    all.into_iter()
}

/// Checks that the gang reaches its end if nothing else goes wrong and no late request arrives.
fn check_end(world: &World, known_good: &mut HashSet<Fingerprint>) -> Result<(), String> {
    let mut world = world.clone();
    world.late.clear();
    (world.takeovers, world.losses, world.acts) = (0, 0, 0);
    let mut visited = Vec::new();
    for _ in 0..MAX_STEPS_TO_THE_END {
        let own = fingerprint(&world);
        if known_good.contains(&own) {
            known_good.extend(visited);
            return Ok(());
        }
        visited.push(own);
        // The watches are up to date before the leader looks.
        let quiet = deliveries(&world)
            .next()
            .or_else(|| kubelet_steps(&world).next());
        let unbounded = Bounds {
            takeovers: 0,
            losses: 0,
            acts: 0,
            plans: u8::MAX,
            fence: Fence::Present,
        };
        let step = match quiet {
            Some((_, next)) => Some(next),
            None => match leader_step(&world, &unbounded) {
                Some((_, next)) => Some(next?),
                None => None,
            },
        };
        match step {
            Some(next) => world = next,
            None if is_at_its_end(&world) => {
                known_good.extend(visited);
                return Ok(());
            }
            None => return Err(format!("the gang stands still: {world:?}")),
        }
    }
    Err(format!("the gang does not come to an end: {world:?}"))
}

fn is_at_its_end(world: &World) -> bool {
    match world.job.is_suspended {
        false => world.is_whole_and_wanted(),
        true => world.journal.phase == Phase::Pending && world.pods.iter().all(Option::is_none),
    }
}
