//! `cargo policy-bench`: what it costs to decide a job of 13 demands by sets of
//! policies of different sizes, with the index and without, and to load a set; and
//! what the worst namespace costs that the bounds allow.
//!
//! Each figure is a median over many runs, on one thread.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that prints its table"
)]

mod worst_case;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use trellis_api::document::split;
use trellis_api::job_policy::OnViolation;
use trellis_api::{Enforcement, QueueResources, QueueSpec, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, compile};
use trellis_policies::ClusterFacts;
use trellis_policies::cedar::{
    JobDecision, ObjectKey, Policies, PolicyLoader, PolicyObject, SubmissionFacts, authorize,
};

/// Policies in one object.
const POLICIES_PER_OBJECT: usize = 100;

const JOB: &str = "
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: llm, namespace: n0}
spec:
  framework: PyTorch
  priorityClassName: high
  serviceAccountName: runner
  network:
    egress: [{cidr: 10.20.0.0/16, ports: [{port: 443}]}]
    ingress: [{namespace: monitoring}]
  taskGroups:
  - name: worker
    replicas: 4
    gpus: 8
    flavors: [a100, h100]
    image: 'registry.example/train:1'
    resources: {limits: {cpu: 96, memory: 1Ti}}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}]
    mounts: [{claimName: data, path: /data}, {configMapName: settings, path: /etc/settings}]
";

#[derive(Parser)]
struct PolicyBenchArguments {
    /// One JSON object a row instead of a table.
    #[arg(long)]
    json: bool,
    /// Sizes of the sets, in policies.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 10_000])]
    policies: Vec<usize>,
    /// Runs of each decision.
    #[arg(long, default_value_t = 500)]
    runs: usize,
    /// `cargo bench` passes it.
    #[arg(long, hide = true)]
    cargo_bench: bool,
}

fn main() {
    let PolicyBenchArguments {
        json,
        policies,
        runs,
        cargo_bench: _,
    } = PolicyBenchArguments::parse();
    let print = |case: &str, took: Duration| {
        let value = took.as_secs_f64() * 1e6;
        if json {
            println!("{{\"case\":{case:?},\"value\":{value},\"unit\":\"us\",\"share\":null}}");
        } else {
            println!("{case:<56} {value:>11.2} us");
        }
    };
    let job = job();
    let loader = PolicyLoader::new().expect("the schema is good");
    for size in policies {
        let objects = objects(size);
        let start = Instant::now();
        let (set, _) = loader.load(None, objects.clone());
        print(&format!("load {size} policies"), start.elapsed());
        let start = Instant::now();
        let (set, _) = loader.load(Some(&set), objects);
        print(&format!("load {size} policies again"), start.elapsed());
        let bare = set.without_index();
        let (one, other) = (decide(&set, &job), decide(&bare, &job));
        assert!(one == other && one.decisions.iter().all(|(_, d)| d.is_allowed()));
        let demands = one.decisions.len();
        for (how, set) in [("index", &set), ("no index", &bare)] {
            let took = median(runs, || drop(decide(set, &job)));
            print(
                &format!("decide {demands} demands, {size} policies, {how}"),
                took,
            );
        }
    }
    worst_case::print_worst_case(&loader, &print);
}

fn median(runs: usize, mut run: impl FnMut()) -> Duration {
    let mut took: Vec<_> = (0..runs.max(1))
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

fn decide(policies: &Policies, job: &CompiledJob) -> JobDecision {
    let queue = QueueSpec {
        namespace_selector: Some(Default::default()),
        ..QueueSpec::default()
    };
    let labels = BTreeMap::from([("trellis.dev/team".to_owned(), "t0".to_owned())]);
    let facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "n0",
        namespace_labels: &labels,
        priority_class: None,
    };
    let submission = SubmissionFacts {
        labels: &labels,
        requester: None,
        attempt: 1,
    };
    authorize(Some(policies), job.clone(), &facts, &submission).0
}

/// Policies of an organisation: a few for the cluster, and for each namespace the queues, images
/// and secrets that it may use and what its team may not do.
fn objects(size: usize) -> Vec<PolicyObject> {
    let common = [
        "permit(principal, action in [Trellis::Action::\"Submit\", \
         Trellis::Action::\"UsePriorityClass\", Trellis::Action::\"UseFlavor\"], resource);",
        "permit(principal, action in [Trellis::Action::\"UseServiceAccount\", \
         Trellis::Action::\"UseSecret\", Trellis::Action::\"UseVolume\"], resource) \
         when { resource in principal };",
        "permit(principal, action == Trellis::Action::\"ConnectTo\", resource) \
         when { resource has cidr && resource.cidr.isInRange(ip(\"10.0.0.0/8\")) };",
        "permit(principal, action == Trellis::Action::\"AcceptFrom\", resource) \
         when { resource has namespace };",
        "permit(principal, action == Trellis::Action::\"UsePrivilege\", \
         resource == Trellis::Privilege::\"RunAsRoot\");",
        "forbid(principal, action, resource) when { context.gpus > 100000 };",
    ];
    let of_namespace = |i: usize| {
        let n = i / 4;
        match i % 4 {
            0 => format!(
                "permit(principal == Trellis::Namespace::\"n{n}\", \
                 action == Trellis::Action::\"UseQueue\", resource) when {{ resource.selectsNamespace }};"
            ),
            1 => format!(
                "permit(principal == Trellis::Namespace::\"n{n}\", \
                 action == Trellis::Action::\"UseImage\", resource) \
                 when {{ resource has registry && resource.registry == \"registry.example\" }};"
            ),
            2 => format!(
                "forbid(principal == Trellis::Namespace::\"n{n}\", action, resource) \
                 when {{ context.gpus > 512 && context.priority > 1000 }};"
            ),
            _ => format!(
                "forbid(principal in Trellis::Team::\"t{n}\", \
                 action == Trellis::Action::\"UsePrivilege\", \
                 resource == Trellis::Privilege::\"hostNetwork\");"
            ),
        }
    };
    let all: Vec<_> = common
        .into_iter()
        .map(str::to_owned)
        .chain((0..size.saturating_sub(common.len())).map(of_namespace))
        .collect();
    let object = |(i, texts): (usize, &[String])| PolicyObject {
        key: ObjectKey {
            namespace: None,
            name: format!("o{i}"),
        },
        uid: i.to_string(),
        generation: None,
        cedar: texts.join("\n"),
        enforcement: Enforcement::Deny,
        on_violation: OnViolation::Report,
        selector: None,
        tests: Vec::new(),
        decode_error: None,
    };
    all.chunks(POLICIES_PER_OBJECT)
        .enumerate()
        .map(object)
        .collect()
}

fn job() -> CompiledJob {
    let documents = split(JOB).expect("a file of one job");
    let document = documents.first().expect("one job");
    let job: TrainingJob = document.decode_valid().expect("a valid job");
    compile_job(ValidatedJob::try_from(job).expect("a valid job"))
}

fn compile_job(job: ValidatedJob) -> CompiledJob {
    let job = ResolvedJob::new(job, None, "default", QueueResources::default());
    let job = job.expect("a job that states its resources");
    let services = BTreeMap::new();
    let found = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &services,
    };
    let surroundings = CompileContext::resolve(job.job(), found).expect("no Service is named");
    compile(job, surroundings, &Arc::default())
}
