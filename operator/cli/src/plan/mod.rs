//! `trellis plan`: shows the compiled objects of jobs and their planned nodes.
//! It runs the same steps as the operator, and writes nothing.

mod claim_bindings;
mod engine_setup;
pub(super) mod existing_job;
pub(super) mod input;
pub(super) mod job_judgement;
pub(super) mod job_preparation;
mod manifests;
mod namespace_quotas;
pub(super) mod notes;
pub(super) mod plan_requester;
mod planned_jobs;
pub(super) mod reads;
mod report;
mod server_plan;
pub(super) mod snapshot;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use trellis_api::document::Problem;
use trellis_api::rules;
use trellis_plan::{PlannedJob, describe};

use super::requester_options::RequesterOptions;
use crate::files::job::assign_namespaces;
use crate::files::objects::display_name;
use crate::output;
use input::PlanInput;
use notes::{foreign_keys, unlabelled_namespaces, unused_limits};
use plan_requester::PlanRequester;
use reads::cluster_reader;
use snapshot::ClusterSnapshot;

/// Exit status if a job would wait, be Refused, or not run again.
const WOULD_WAIT: u8 = 1;

/// Options of `trellis plan`.
#[derive(clap::Args, Debug)]
pub(super) struct PlanOptions {
    /// Files with the TrainingJobs to plan; - is standard input.
    /// Folders are read for their .yaml, .yml and .json files. The files may also contain nodes and
    /// other objects of a cluster.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// Files with the objects of a cluster, written by `kubectl get -o yaml`.
    /// The command reads Nodes, Pods, queues, ResourceFlavors, Topologies, RuntimeProfiles,
    /// ClusterJobPolicies, JobPolicies, QuotaPolicies, PodGroups, TrainingJobs, PriorityClasses,
    /// Namespaces, Services, ResourceQuotas, PersistentVolumeClaims, PersistentVolumes,
    /// StorageClasses, DaemonSets and DeviceClasses from them. It then reads no cluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    nodes: Vec<PathBuf>,
    /// Let the operator plan, and read no cluster.
    /// This needs the right to create plans in the namespaces of the jobs, which the ClusterRoles
    /// trellis-edit, edit and admin have. The requester is your user. The operator also tells when a job
    /// would start, and with how many pods it would start now.
    #[arg(long, conflicts_with_all = ["nodes", "output", "user"])]
    server: bool,
    /// Print the objects as input for kubectl apply.
    /// The output contains pods only if all pods of the job can be placed. Reasons why a job would
    /// not run go to standard error.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PlanFormat>,
    /// Namespace of jobs that name none. Default: the namespace of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    requester: RequesterOptions,
    #[command(flatten)]
    cluster: cluster_reader::KubeconfigOptions,
}

/// Output formats.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum PlanFormat {
    /// YAML documents.
    Yaml,
    /// One List.
    Json,
}

/// Plans the jobs. The exit status shows whether all would run.
pub(super) fn run(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    if options.server {
        return server_plan::run(options);
    }
    let input = PlanInput::read(&options.filenames, &options.nodes);
    let plan = match make_plan(options, input)? {
        Ok(plan) => plan,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    for note in &plan.notes {
        output::warn(&format!("note: {note}"));
    }
    let planned = &plan.jobs;
    let described: Vec<_> = planned.iter().map(describe).collect();
    match options.output {
        None => output::print(&report::render_plan(&described))?,
        Some(format) => {
            output::print(&manifests::render_manifests(planned, format)?)?;
            for waiting in described.iter().filter_map(report::describe_reason) {
                output::warn(&waiting);
            }
            for planned in &described {
                for note in &planned.notes {
                    output::warn(&format!("note: TrainingJob {}: {note}", planned.job));
                }
            }
        }
    }
    Ok(if planned.iter().all(PlannedJob::would_run) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(WOULD_WAIT)
    })
}

/// The planned jobs.
struct Plan {
    jobs: Vec<PlannedJob>,
    /// Notes about facts that the user might not expect.
    notes: Vec<String>,
}

/// Plans the jobs of this input. Returns all problems of an invalid input.
fn make_plan(
    options: &PlanOptions,
    input: PlanInput,
) -> anyhow::Result<Result<Plan, Vec<Problem>>> {
    if !input.problems.is_empty() {
        return Ok(Err(input.problems));
    }
    let PlanInput {
        jobs,
        snapshot,
        mut notes,
        ..
    } = input;
    if let Some(problem) = check_options(options, &snapshot) {
        return Ok(Err(vec![problem]));
    }
    let policies: BTreeSet<String> = snapshot.quota_policies.keys().cloned().collect();
    let offline = !options.nodes.is_empty() || !snapshot.nodes.is_empty();
    let (jobs, mut snapshot, extra_notes, requester) = if offline {
        let namespace = options.namespace.as_deref().unwrap_or("default");
        let jobs = match assign_namespaces(jobs, namespace, options.namespace.as_deref()) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(Err(problems)),
        };
        let requester =
            PlanRequester::from_submitter(&options.requester, || PlanRequester::Unknown);
        let note = unlabelled_namespaces::note_unlabelled(&jobs, &snapshot);
        (jobs, snapshot, Vec::from_iter(note), requester)
    } else {
        let cluster = cluster_reader::ClusterReader::connect(
            &options.cluster,
            cluster_reader::ReadPurpose::Plan,
        )?;
        let namespace = options.namespace.as_deref();
        let of_context = namespace.unwrap_or(cluster.namespace()).to_owned();
        let jobs = match assign_namespaces(jobs, &of_context, namespace) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(Err(problems)),
        };
        let mut contents = cluster.read(&jobs)?;
        // The plan treats other objects in the files as applied together with the jobs.
        contents.snapshot.overlay(snapshot);
        let requester = PlanRequester::from_submitter(&options.requester, || {
            PlanRequester::CurrentUser(cluster.whoami())
        });
        (jobs, contents.snapshot, contents.notes, requester)
    };
    notes.extend(extra_notes);
    notes.extend(unused_limits::note_unused_limits(&policies, &snapshot));
    notes.extend(foreign_keys::note_foreign_keys(&jobs));
    notes.extend(snapshot.policies.load().iter().map(ToString::to_string));
    notes.extend(requester.assumption_note(&snapshot));
    let jobs = planned_jobs::plan_jobs(jobs, snapshot, &requester);
    Ok(Ok(Plan { jobs, notes }))
}

/// Checks for contradictory or invalid options.
fn check_options(options: &PlanOptions, snapshot: &ClusterSnapshot) -> Option<Problem> {
    if let Some(namespace) = &options.namespace
        && let Err(error) = rules::namespace(namespace)
    {
        let message = format!("--namespace: {namespace:?} {error}");
        return Some(Problem::for_file(message));
    }
    let mut flavors = snapshot.flavors.values();
    let may_grow = flavors.any(|flavor| flavor.spec.provisioning.is_some());
    if !options.nodes.is_empty() && snapshot.nodes.is_empty() && !may_grow {
        let message = "contains no Node: write the file with `kubectl get nodes -o yaml`";
        let files: Vec<_> = options.nodes.iter().map(|f| display_name(f)).collect();
        return Some(Problem::for_file(message).with_file(files.join(", ")));
    }
    None
}
