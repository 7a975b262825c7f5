//! `trellis plan`: what jobs would be compiled into, and where their pods would
//! go: what the operator would say, by the very same steps, and nothing written.

mod bindings;
mod engine;
mod facts;
mod foreign_keys;
mod idle_limits;
pub(super) mod input;
pub(super) mod judge;
pub(super) mod live;
mod manifests;
pub(super) mod namespaces;
mod outcome;
mod policies;
mod quotas;
mod report;
pub(super) mod runs;
pub(super) mod snapshot;
pub(super) mod standing;
mod storage;
pub(super) mod who;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use trellis_api::document::Problem;
use trellis_api::rules;

use super::submitter::Submitter;
use crate::output;
use input::Input;
use outcome::Planned;
use snapshot::Snapshot;
use who::Who;

/// Exit status where a job would wait, be Refused, or not run again.
const WAITS: u8 = 1;

/// What to plan, and with what.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Files with the TrainingJobs to plan, or folders of such files (.yaml, .yml
    /// and .json); - is standard input. Nodes and what else a cluster has may stand
    /// in them too.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// Files that hold a cluster, as `kubectl get -o yaml` writes it: Nodes, and
    /// Pods, queues, ResourceFlavors, Topologies, RuntimeProfiles, ClusterJobPolicies,
    /// JobPolicies, QuotaPolicies, PodGroups, TrainingJobs,
    /// PriorityClasses, Namespaces, Services, ResourceQuotas,
    /// PersistentVolumeClaims, PersistentVolumes, StorageClasses, DaemonSets,
    /// DeviceClasses.
    /// Then no cluster is asked.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    nodes: Vec<PathBuf>,
    /// Print the objects themselves, as kubectl apply takes them; pods only where
    /// all of the job's have a place. Why a job would not run goes to standard error.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Namespace of jobs that name none. Without it, that of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    submitter: Submitter,
    #[command(flatten)]
    cluster: live::Access,
}

/// How the objects are printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// Documents.
    Yaml,
    /// One List.
    Json,
}

/// Plans, and says by the exit status whether all would run.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let input = Input::read(&options.filenames, &options.nodes);
    if !input.problems.is_empty() {
        return Ok(output::refuse(&input.problems));
    }
    let Input {
        jobs,
        snapshot,
        notes,
        ..
    } = input;
    if let Some(problem) = wrong_options(options, &snapshot) {
        return Ok(output::refuse(&[problem]));
    }
    let policies: BTreeSet<String> = snapshot.quota_policies.keys().cloned().collect();
    let offline = !options.nodes.is_empty() || !snapshot.nodes.is_empty();
    let (jobs, snapshot, more, who) = if offline {
        let namespace = options.namespace.as_deref().unwrap_or("default");
        let jobs = match input::settle(jobs, namespace, options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::refuse(&problems)),
        };
        let who = Who::of(&options.submitter, || Who::Unknown);
        let note = namespaces::unlabelled(&jobs, &snapshot);
        (jobs, snapshot, Vec::from_iter(note), who)
    } else {
        let cluster = live::Cluster::connect(&options.cluster, live::Purpose::Plan)?;
        let namespace = options.namespace.as_deref();
        let of_context = namespace.unwrap_or(cluster.namespace()).to_owned();
        let jobs = match input::settle(jobs, &of_context, namespace) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(output::refuse(&problems)),
        };
        let mut seen = cluster.read(&jobs)?;
        // What the files say beside the jobs would be applied with them.
        seen.snapshot.overlay(snapshot);
        let who = Who::of(&options.submitter, || Who::Myself(cluster.whoami()));
        (jobs, seen.snapshot, seen.notes, who)
    };
    let slips = idle_limits::notes(&policies, &snapshot);
    let foreign = foreign_keys::notes(&jobs);
    for note in notes.iter().chain(&more).chain(&slips).chain(&foreign) {
        output::warn(&format!("note: {note}"));
    }
    let mut snapshot = snapshot;
    for wrong in snapshot.policies.load() {
        output::warn(&format!("note: {wrong}"));
    }
    if let Some(assumed) = who.assumed(&snapshot) {
        output::warn(&format!("note: {assumed}"));
    }
    let planned = outcome::plan(jobs, snapshot, &who);
    match options.output {
        None => output::print(&report::text(&planned))?,
        Some(format) => {
            output::print(&manifests::text(&planned, format)?)?;
            for waiting in planned.iter().filter_map(report::why) {
                output::warn(&waiting);
            }
            for job in &planned {
                if let Some(note) = report::behind(job) {
                    output::warn(&format!("note: TrainingJob {}: {note}", job.key));
                }
            }
        }
    }
    Ok(if planned.iter().all(Planned::would_run) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(WAITS)
    })
}

/// What cannot be meant.
fn wrong_options(options: &Options, snapshot: &Snapshot) -> Option<Problem> {
    if let Some(namespace) = &options.namespace
        && let Err(error) = rules::namespace(namespace)
    {
        let message = format!("--namespace: {namespace:?} {error}");
        return Some(Problem::of_file(message));
    }
    if !options.nodes.is_empty() && snapshot.nodes.is_empty() {
        let message = "holds no Node: write one by `kubectl get nodes -o yaml`";
        let files: Vec<_> = options.nodes.iter().map(|f| input::shown(f)).collect();
        return Some(Problem::of_file(message).in_file(files.join(", ")));
    }
    None
}
