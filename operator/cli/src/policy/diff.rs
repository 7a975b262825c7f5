//! `trellis policy diff`: shows what other policies would change for jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use trellis_api::TrainingJob;
use trellis_api::document::Problem;
use trellis_gang::key::Key;
use trellis_policies::cedar::{Policies, PolicyObject, PolicyObjectState};

use super::decisions::{DecidedJob, DecisionOutcome, DemandRow, JobToDecide};
use super::eval::{EvalInput, needs_cluster_problem};
use super::evictions::evicting_policies;
use super::input_files::ParsedFiles;
use super::{PolicyOutputFormat, decision_notes, policy_objects};
use crate::output;
use crate::plan::reads::cluster_reader::{ClusterReader, KubeconfigOptions, ReadPurpose};
use crate::plan::snapshot::ClusterSnapshot;
use crate::requester_options::known_requester;

/// Options of `trellis policy diff`.
#[derive(clap::Args, Debug)]
#[command(allow_missing_positional = true)]
pub(super) struct DiffOptions {
    /// The old policies: a file, or a folder with all its subfolders.
    /// With --cluster the old policies may be left out. They are then the policies of the cluster,
    /// and the new ones are applied to them.
    #[arg(value_name = "OLD")]
    old: Option<PathBuf>,
    /// The new policies: a file, or a folder with all its subfolders.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Files with `TrainingJobs`; - is standard input.
    /// Folders are read with all their subfolders. The files may also contain `TrainingQueues`,
    /// Namespaces, `PriorityClasses` and Services.
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        required_unless_present = "cluster"
    )]
    filenames: Vec<PathBuf>,
    /// Also decide about the jobs of the current cluster that have not ended.
    #[arg(long)]
    cluster: bool,
    /// Treat policies of the cluster that are missing from the new ones as deleted.
    #[arg(long, requires = "cluster")]
    prune: bool,
    /// Output format. Default: text for a terminal.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<PolicyOutputFormat>,
    #[command(flatten)]
    access: KubeconfigOptions,
}

/// A job with a changed decision.
#[derive(Serialize)]
struct ChangedJob {
    job: String,
    /// Phase of the job in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    before: DecisionOutcome,
    after: DecisionOutcome,
    /// Policies that evict the job.
    /// They forbid the job and have `onViolation: Evict`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evicted: Vec<String>,
    demands: Vec<ChangedDemand>,
}

/// One request of the job with a changed decision.
#[derive(Serialize)]
struct ChangedDemand {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    before: DemandDecision,
    after: DemandDecision,
}

/// The decision about the request.
#[derive(Serialize, PartialEq)]
struct DemandDecision {
    decision: DecisionOutcome,
    policies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    because: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warn: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    audit: Vec<String>,
}

/// All changes.
#[derive(Serialize)]
struct DiffReport {
    /// Number of compared jobs.
    jobs: usize,
    changed: Vec<ChangedJob>,
}

/// The policies to compare, and the jobs.
struct DiffInput {
    old: Policies,
    new: Policies,
    jobs: Vec<TrainingJob>,
    facts: ClusterSnapshot,
}

/// Compares the policies. The exit status shows whether a decision changes.
pub(super) fn run(options: &DiffOptions) -> anyhow::Result<ExitCode> {
    let scene = match read_input(options)? {
        Ok(scene) => scene,
        Err(problems) => return Ok(output::print_problems(&problems)),
    };
    let report = compare(&scene);
    match options.output {
        None => output::print(&render_report(&report))?,
        Some(PolicyOutputFormat::Json) => super::print_json(&report)?,
    }
    Ok(super::to_exit_code(report.changed.is_empty()))
}

/// Reads all input.
fn read_input(options: &DiffOptions) -> anyhow::Result<Result<DiffInput, Vec<Problem>>> {
    let mut problems = Vec::new();
    if !options.cluster && options.access.is_set() {
        problems.push(needs_cluster_problem());
    }
    if options.old.is_none() && !options.cluster {
        let message = "the command compares two sets of policies: name the old and the new one, or add --cluster";
        problems.push(Problem::for_file(message));
    }
    let old = options
        .old
        .as_ref()
        .map(|old| read_policies(old, &mut problems));
    let new = read_policies(&options.new, &mut problems);
    if options.prune && old.is_some() {
        let message =
            "--prune applies to policies of the cluster, and OLD names files: leave one out";
        problems.push(Problem::for_file(message));
    }
    let mut input = match EvalInput::from_files(ParsedFiles::read(&options.filenames), None) {
        Ok(input) => input,
        Err(wrong) => {
            problems.extend(wrong);
            return Ok(Err(problems));
        }
    };
    if input.facts.policies.objects().next().is_some() {
        let message = "the files of jobs contain policies: name the policies as OLD and NEW";
        problems.push(Problem::for_file(message));
    }
    if !problems.is_empty() {
        return Ok(Err(problems));
    }
    let (jobs, facts, live, notes) = if options.cluster {
        let cluster = ClusterReader::connect(&options.access, ReadPurpose::Policies)?;
        let jobs = match input.optional_jobs(cluster.namespace(), None) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(Err(problems)),
        };
        let cluster_jobs = cluster.list_jobs()?;
        let jobs = merge_jobs(jobs, &cluster_jobs);
        let mut contents = cluster.read_facts(&jobs)?;
        cluster_jobs
            .into_iter()
            .for_each(|job| contents.snapshot.add(job));
        let groups = cluster.list_pod_groups()?.into_iter();
        groups.for_each(|group| contents.snapshot.add(group));
        let live: Vec<_> = contents.snapshot.policies.objects().cloned().collect();
        contents.snapshot.overlay(input.facts);
        (jobs, contents.snapshot, live, contents.notes)
    } else {
        let jobs = match input.optional_jobs("default", None) {
            Ok(jobs) => jobs,
            Err(problems) => return Ok(Err(problems)),
        };
        if jobs.is_empty() {
            let message = "no file contains a TrainingJob: name a file with one by -f";
            return Ok(Err(vec![Problem::for_file(message)]));
        }
        (jobs, input.facts, Vec::new(), Vec::new())
    };
    for note in input.notes.iter().chain(&notes) {
        output::warn(&format!("note: {note}"));
    }
    for note in decision_notes::note_removed_policies(old.as_deref().unwrap_or_default(), &new) {
        output::warn(&format!("note: {note}"));
    }
    let new = match &old {
        None if !options.prune => apply_policies(&live, new),
        _ => new,
    };
    let old = old.unwrap_or(live);
    let mut facts = facts;
    facts.queues_or_default();
    Ok(Ok(DiffInput {
        old: load_policies(old)?,
        new: load_policies(new)?,
        jobs,
        facts,
    }))
}

/// Reads the policies of a path. Invalid policies are problems.
fn read_policies(path: &Path, problems: &mut Vec<Problem>) -> Vec<PolicyObject> {
    let files = ParsedFiles::read(&[path.to_owned()]);
    problems.extend(files.problems);
    match policy_objects::load_valid(&files.objects) {
        Ok(all) => all.into_iter().map(|written| written.object).collect(),
        Err(wrong) => {
            problems.extend(wrong);
            Vec::new()
        }
    }
}

/// Merges the given jobs with the jobs of the cluster that have not ended.
fn merge_jobs(input: Vec<TrainingJob>, cluster_jobs: &[TrainingJob]) -> Vec<TrainingJob> {
    let mut all: BTreeMap<Key, TrainingJob> = BTreeMap::new();
    for job in cluster_jobs {
        if !job.status.as_ref().is_some_and(|s| s.has_ended()) {
            all.insert(Key::from_meta(&job.metadata), job.clone());
        }
    }
    all.extend(
        input
            .into_iter()
            .map(|job| (Key::from_meta(&job.metadata), job)),
    );
    all.into_values().collect()
}

/// Applies new policies to the existing ones.
fn apply_policies(live: &[PolicyObject], new: Vec<PolicyObject>) -> Vec<PolicyObject> {
    let all = live.iter().cloned().chain(new);
    let all: BTreeMap<_, _> = all.map(|object| (object.key.clone(), object)).collect();
    all.into_values().collect()
}

/// Loads the policies.
/// Invalid policies of a cluster have the same effect as in the cluster.
fn load_policies(objects: Vec<PolicyObject>) -> anyhow::Result<Policies> {
    let (policies, verdicts) = super::new_loader()?.load(None, objects);
    for verdict in verdicts {
        if verdict.state != PolicyObjectState::Active {
            let (kind, key) = (verdict.key.kind(), &verdict.key);
            output::warn(&format!(
                "note: {kind} \"{key}\" does not take effect: jobs in its scope stay undecided"
            ));
        }
    }
    Ok(policies)
}

fn compare(scene: &DiffInput) -> DiffReport {
    let changed = scene.jobs.iter().filter_map(|job| {
        let existing = scene.facts.jobs.get(&Key::from_meta(&job.metadata));
        let requester = existing.and_then(known_requester);
        let to_decide = JobToDecide {
            job,
            in_cluster: existing,
            requester: requester.as_ref(),
        };
        let before = to_decide.decide(&scene.old, &scene.facts);
        let after = to_decide.decide(&scene.new, &scene.facts);
        let phase = existing.and_then(|job| job.status.as_ref()?.phase);
        let evicted =
            [&scene.old, &scene.new].map(|set| evicting_policies(&scene.facts, existing, set));
        let phase = phase.map(|phase| format!("{phase:?}"));
        compare_decisions(before, after, evicted, phase)
    });
    DiffReport {
        changed: changed.collect(),
        jobs: scene.jobs.len(),
    }
}

fn compare_decisions(
    before: DecidedJob,
    after: DecidedJob,
    [evicted_before, evicted]: [Vec<String>; 2],
    phase: Option<String>,
) -> Option<ChangedJob> {
    let same_end = evicted_before.is_empty() == evicted.is_empty();
    // The same job has the same requests in the same order.
    let demands = before.demands.into_iter().zip(after.demands);
    let demands = demands.filter_map(|(before, after)| {
        let (action, resource) = (before.action, before.resource.clone());
        let (before, after) = (
            DemandDecision::from_row(before),
            DemandDecision::from_row(after),
        );
        before.differs(&after).then_some(ChangedDemand {
            action,
            resource,
            before,
            after,
        })
    });
    let changed = ChangedJob {
        job: before.job,
        phase,
        before: before.decision,
        after: after.decision,
        evicted,
        demands: demands.collect(),
    };
    let is_same = same_end && changed.before == changed.after && changed.demands.is_empty();
    (!is_same).then_some(changed)
}

impl DemandDecision {
    fn from_row(row: DemandRow) -> Self {
        Self {
            decision: row.decision,
            policies: row.policies,
            because: row.because,
            warn: row.warn,
            audit: row.audit,
        }
    }

    /// Returns true if the decisions differ.
    /// The same decision by another policy is no difference.
    fn differs(&self, other: &Self) -> bool {
        self.decision != other.decision || self.warn != other.warn || self.audit != other.audit
    }

    fn describe(&self) -> String {
        let mut text = self.decision.as_str().to_owned();
        for (word, ids) in [
            ("by", &self.policies),
            ("warned of by", &self.warn),
            ("audited by", &self.audit),
        ] {
            if !ids.is_empty() {
                text.push_str(&format!(" {word} {}", ids.join(", ")));
            }
        }
        text
    }
}

fn render_report(report: &DiffReport) -> String {
    let mut out = String::new();
    for job in &report.changed {
        let phase = job.phase.as_ref().map(|p| format!(" ({p})"));
        out.push_str(&format!(
            "TrainingJob {}{}: {} -> {}\n",
            job.job,
            phase.unwrap_or_default(),
            job.before.as_str(),
            job.after.as_str()
        ));
        if !job.evicted.is_empty() {
            let evictors = job.evicted.join(", ");
            out.push_str(&format!("  it is placed, and {evictors} stops it\n"));
        }
        for change in &job.demands {
            let resource = change.resource.as_ref().map(|r| format!(" {r}"));
            out.push_str(&format!(
                "  {}{}\n    - {}\n    + {}\n",
                change.action,
                resource.unwrap_or_default(),
                change.before.describe(),
                change.after.describe()
            ));
        }
    }
    let stopped = report.changed.iter().filter(|j| !j.evicted.is_empty());
    let stopped = match stopped.count() {
        0 => String::new(),
        stopped => format!("; {stopped} would be stopped"),
    };
    out.push_str(&format!(
        "{} of {} jobs would change{stopped}\n",
        report.changed.len(),
        report.jobs
    ));
    out
}
