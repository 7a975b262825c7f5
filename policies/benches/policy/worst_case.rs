//! The most expensive policies that one namespace may write, at every bound, and a job whose images
//! make them as slow as possible.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use trellis_api::job_policy::PolicyTest;
use trellis_api::{JobPolicy, TrainingJob, ValidatedJob};
use trellis_compiler::CompiledJob;
use trellis_policies::cedar::{
    MAX_NAMESPACE_OBJECTS, MAX_NAMESPACE_POLICIES, MAX_NAMESPACE_STEPS, MAX_TEXT, Policies,
    PolicyLoader, PolicyObject,
};

use super::{compile_job, decide, median, objects};

/// How long an evaluation has a core, as in the operator.
const CORE_SLICE: Duration = Duration::from_millis(5);
/// Decisions of another namespace.
const OTHER_DECISIONS: usize = 100;
/// Images of the worst job, each of [`MAX_TEXT`] characters: a job has at most 1.5 MB.
const IMAGES: usize = 416;

pub(super) fn print_worst_case(loader: &PolicyLoader, print: &dyn Fn(&str, Duration)) {
    let common = objects(100);
    let (calm, _) = loader.load(None, common.clone());
    for (what, own) in [
        ("patterns", costliest_patterns()),
        ("words", costliest_operators()),
    ] {
        let start = Instant::now();
        let part = loader.load_part(None, Some("n0"), own.clone());
        print(
            &format!("load the worst namespace: {what}"),
            start.elapsed(),
        );
        let set = calm.with_part(part);
        for verdict in set.load_results_in(Some("n0")) {
            assert!(verdict.problems.is_empty(), "{:?}", verdict.problems);
        }
        let (cluster, took) = run_concurrently(
            || drop(loader.load_part(None, Some("n0"), own.clone())),
            || {
                let start = Instant::now();
                (
                    loader.load_part(None, None, common.clone()),
                    start.elapsed(),
                )
            },
        );
        print(
            &format!("load the cluster's policies beside it: {what}"),
            took,
        );
        let set = set.with_part(cluster);
        let (worst, calm_job) = (job(IMAGES), super::job());
        let core = Arc::new(SharedCore::default());
        let (others, _) = run_concurrently(
            || core.evaluate(&set, &worst),
            || {
                let decide = |_| {
                    let start = Instant::now();
                    core.evaluate(&calm, &calm_job);
                    start.elapsed()
                };
                // The other has had its first slices by then.
                while core.turns.lock().expect("no panic").1 < 2 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                ((0..OTHER_DECISIONS).map(decide).collect::<Vec<_>>(), ())
            },
        );
        let mut others = others;
        others.sort_unstable();
        let nth = |n: usize| others.get(n).copied().unwrap_or_default();
        print(
            &format!("decide beside it on one core, median: {what}"),
            nth(OTHER_DECISIONS / 2),
        );
        print(
            &format!("decide beside it on one core, longest: {what}"),
            nth(OTHER_DECISIONS - 1),
        );
        for images in [1, IMAGES] {
            let job = job(images);
            let took = median(3, || drop(decide(&set, &job)));
            let demands = decide(&set, &job).decisions.len();
            print(
                &format!("decide {demands} demands of the worst job: {what}"),
                took,
            );
            let longest = longest_slice(&set, &job);
            print(
                &format!("longest of its {demands} requests: {what}"),
                longest,
            );
            let took = median(3, || drop(decide(&calm, &job)));
            print(
                &format!("decide {demands} demands without its policies"),
                took,
            );
        }
    }
}

/// The longest time between two requests, in which no other namespace is given the core.
fn longest_slice(policies: &Policies, job: &CompiledJob) -> Duration {
    let longest = Arc::new(Mutex::new((Instant::now(), Duration::ZERO)));
    let seen = longest.clone();
    let paced = policies.with_pause(move || {
        let mut seen = seen.lock().expect("one thread");
        *seen = (Instant::now(), seen.1.max(seen.0.elapsed()));
    });
    // From the first request on.
    longest.lock().expect("one thread").0 = Instant::now();
    drop(decide(&paced, job));
    let (last, longest) = *longest.lock().expect("one thread");
    longest.max(last.elapsed())
}

/// Does the second while the first is done again and again on another thread.
fn run_concurrently<T, U>(again: impl Fn() + Sync, once: impl FnOnce() -> (T, U)) -> (T, U) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                again();
            }
        });
        // The long decision has started by then.
        std::thread::sleep(Duration::from_millis(20));
        let done = once();
        is_done.store(true, Ordering::Release);
        done
    })
}

/// One core, in turns, as the operator shares it: the next has it after each [`CORE_SLICE`].
#[derive(Default)]
struct SharedCore {
    /// The turn that is given out next, and the one that has the core.
    turns: Mutex<(u64, u64)>,
    changed: Condvar,
}

impl SharedCore {
    fn acquire(&self) {
        let mut turns = self.turns.lock().expect("no panic");
        let own = turns.0;
        turns.0 += 1;
        while turns.1 != own {
            turns = self.changed.wait(turns).expect("no panic");
        }
    }

    fn release(&self) {
        self.turns.lock().expect("no panic").1 += 1;
        self.changed.notify_all();
    }

    fn evaluate(self: &Arc<Self>, policies: &Policies, job: &CompiledJob) {
        self.acquire();
        let (core, since) = (self.clone(), Mutex::new(Instant::now()));
        let paced = policies.with_pause(move || {
            let mut since = since.lock().expect("no panic");
            if since.elapsed() >= CORE_SLICE {
                core.release();
                core.acquire();
                *since = Instant::now();
            }
        });
        drop(decide(&paced, job));
        self.release();
    }
}

/// Patterns that Cedar compares again at each character of an image.
fn costliest_patterns() -> Vec<PolicyObject> {
    let longest = MAX_TEXT / 2;
    let count = (MAX_NAMESPACE_STEPS - (1 << 17)) / (longest * MAX_TEXT);
    let pattern = format!("*{}b", "a".repeat(longest - 1));
    let one = format!(
        "forbid(principal, action, resource is Trellis::Image) when {{ resource.repository like {pattern:?} }};"
    );
    let all: Vec<_> = (0..count).map(|_| one.clone()).collect();
    spread_over_objects(&all)
}

/// As many words as the bounds allow, each evaluated for each image.
fn costliest_operators() -> Vec<PolicyObject> {
    // A word is 128 steps, and `+ 1` are two.
    let each = MAX_NAMESPACE_STEPS / MAX_NAMESPACE_POLICIES / 128;
    let sum = "+ 1 ".repeat((each - 40) / 2);
    let one = format!(
        "forbid(principal, action, resource is Trellis::Image) when {{ context.gpus {sum} < 0 }};"
    );
    let all: Vec<_> = (0..MAX_NAMESPACE_POLICIES).map(|_| one.clone()).collect();
    spread_over_objects(&all)
}

/// Over as many objects as a namespace may have.
fn spread_over_objects(policies: &[String]) -> Vec<PolicyObject> {
    let each = policies.len().div_ceil(MAX_NAMESPACE_OBJECTS).max(1);
    let tests: Vec<PolicyTest> = (0..64)
        .map(|i| {
            serde_json::from_value(json!({
                "name": format!("t{i}"), "decision": "Allow",
                "request": {"namespace": "n0", "action": "UseImage",
                    "resource": {"name": "a".repeat(512)}},
            }))
            .expect("a test")
        })
        .collect();
    let object = |(i, texts): (usize, &[String])| {
        let object: JobPolicy = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
            "metadata": {"name": format!("o{i}"), "namespace": "n0", "uid": i.to_string()},
            "spec": {"cedar": texts.join("\n")},
        }))
        .expect("an object");
        PolicyObject {
            tests: tests.clone(),
            ..PolicyObject::from(&object)
        }
    };
    policies.chunks(each).enumerate().map(object).collect()
}

/// A job with so many images, each as long as it may be.
fn job(images: usize) -> CompiledJob {
    let image = |i: usize| format!("registry.example/{i:03}{}", "a".repeat(MAX_TEXT - 20));
    let group = |(g, images): (usize, &[usize])| {
        let containers = images.iter().skip(1).map(|i| {
            json!({"name": format!("c{i}"), "image": image(*i),
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})
        });
        let containers: Vec<_> = containers.collect();
        json!({
            "name": format!("g{g}"), "replicas": 1, "gpus": 1, "image": image(26 * g),
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            "podTemplate": {"spec": {"containers": containers}},
        })
    };
    let all: Vec<usize> = (0..images).collect();
    let groups: Vec<_> = all.chunks(26).enumerate().map(group).collect();
    let job: TrainingJob = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "n0"},
        "spec": {"taskGroups": groups},
    }))
    .expect("a job");
    compile_job(ValidatedJob::try_from(job).expect("a valid job"))
}
