//! Writes the script: the effect of each object at its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trellis_api::TrainingJob;
use trellis_api::document::{Document, Problem};
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimNode, SlimPod, UnhealthyRules};
use trellis_gang::pod_usage::PodUsage;
use trellis_policies::cedar::Requester;
use trellis_policies::quota::LimitedQuantity;
use trellis_scheduler::{NodeName, Time};
use trellis_simulate::scenario::NodePattern;
use trellis_simulate::{PodChange, ScriptChange, SimulationScript, WithheldJob};

use super::job_pods::GroupPods;
use super::queued_job::build_queued_job;
use super::{SourcedEvent, expectations};
use crate::plan::input::note_unread;
use crate::plan::job_judgement::never_preempts;
use crate::plan::plan_requester::PlanRequester;
use crate::plan::snapshot::ClusterSnapshot;
use crate::plan::{job_preparation, unlabelled_namespaces};
use crate::simulate::node_patterns;
use crate::source_object::{SourceObject, TRELLIS_VERSION};

pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// Kinds of a cluster that a simulation ignores.
/// A PodGroup shows running jobs with an unknown end. GPU hours start at 0, so a QuotaLedger has no
/// effect.
const IGNORED_KINDS: [&str; 5] = [
    "PodGroup",
    "ResourceQuota",
    "DaemonSet",
    "DeviceClass",
    "QuotaLedger",
];

/// Returns the version of a kind, so that an event may omit it.
fn default_version(kind: &str) -> Option<&'static str> {
    match kind {
        "Node" | "Pod" | "Namespace" | "Service" => Some("v1"),
        "PriorityClass" => Some("scheduling.k8s.io/v1"),
        "TrainingJob" | "TrainingQueue" | "ResourceFlavor" | "Topology" | "RuntimeProfile"
        | "PodGroup" | "ClusterJobPolicy" | "QuotaPolicy" | "QuotaLedger" | "JobPolicy" => {
            Some(TRELLIS_VERSION)
        }
        _ => None,
    }
}

/// A job that is not queued.
/// An object that it needs is missing, or it is refused.
pub(super) struct UnqueuedJob {
    job: TrainingJob,
    pub(super) runtime: Option<Duration>,
    pub(super) submitted: Time,
    reason: String,
}

/// The script so far, and the cluster at this point of it.
#[derive(Default)]
pub(super) struct ScriptAuthor {
    pub(super) script: SimulationScript,
    pub(super) snapshot: ClusterSnapshot,
    pub(super) unqueued: BTreeMap<Key, UnqueuedJob>,
    /// The requester of the jobs.
    requester: Option<Requester>,
    /// True if a node existed at any time.
    has_nodes: bool,
    /// Every job that existed at any time.
    known_jobs: BTreeSet<Key>,
    /// The jobs that exist now.
    pub(super) jobs: BTreeMap<Key, Time>,
    /// The task groups of jobs that were queued.
    pub(super) group_pods: BTreeMap<Key, Vec<GroupPods>>,
    /// Namespaces whose labels were needed before they were known.
    unlabelled: BTreeSet<Arc<str>>,
    pub(super) problems: Vec<Problem>,
    notes: Vec<String>,
}

impl ScriptAuthor {
    /// Creates an empty script.
    /// `requester` submits the jobs; None: the requester is unknown.
    pub(super) fn new(requester: Option<Requester>) -> Self {
        Self {
            requester,
            ..Self::default()
        }
    }

    /// Adds the nodes of a pattern at the start.
    pub(super) fn add_pattern(
        &mut self,
        pattern: &NodePattern,
        source: &SourceObject,
        field: &str,
    ) {
        for value in node_patterns::expand_pattern(pattern) {
            let Ok(node) = serde_json::from_value::<SlimNode>(value) else {
                let message = "is not a node: see docs/simulate.md";
                self.problems.push(source.problem(field, message));
                return;
            };
            let name = node.metadata.name.clone().unwrap_or_default();
            if self.snapshot.nodes.contains_key(&name) {
                let message = format!("node {name:?} is defined twice: put {{i}} into the name");
                let field = format!("{field}.name");
                self.problems.push(source.problem(&field, message));
                return;
            }
            self.change_node(Time::default(), &node);
            self.snapshot.add_node(node);
        }
    }

    fn change_node(&mut self, at: Time, node: &SlimNode) {
        self.has_nodes = true;
        self.script.add(
            at,
            ScriptChange::Node(engine::to_engine_node(node, &UnhealthyRules::default())),
        );
    }

    /// Adds the initial objects: first the cluster, then the jobs.
    pub(super) fn add_initial_objects(&mut self, objects: &[SourceObject]) {
        let start = Time::default();
        let (jobs, others): (Vec<_>, Vec<_>) = objects
            .iter()
            .partition(|source| source.is_kind("TrainingJob"));
        for source in others {
            match self.apply_object(start, &source.document, source) {
                Ok(true) => {}
                Ok(false)
                    if source.document.api_version.split('/').next()
                        == TRELLIS_VERSION.split('/').next()
                        && !IGNORED_KINDS.contains(&source.document.kind.as_str()) =>
                {
                    let kind = &source.document.kind;
                    let message = format!(
                        "{kind:?} of {:?} is an unknown kind",
                        source.document.api_version
                    );
                    self.problems.push(source.problem("kind", message));
                }
                Ok(false) => {
                    note_unread(&mut self.notes, &source.document, &source.file, true);
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
        // Without any queues in the files, the queue of a fresh install applies.
        if self.snapshot.queues.is_none() {
            for (name, queue) in self.snapshot.queues_or_default() {
                let queue = engine::to_engine_queue(name, &queue.spec);
                self.script.add(start, ScriptChange::Queue(queue));
            }
        }
        for source in jobs {
            self.apply_job(start, &source.document, source, None);
        }
    }

    /// Adds an event. Expectations are added last, when all jobs are known.
    pub(super) fn add_event(&mut self, event: &SourcedEvent<'_>) {
        let (source, field) = (event.source, event.field.as_str());
        let said = event.event;
        let at = Time::default().plus(said.at.0);
        let what = [
            said.apply.is_some(),
            said.delete.is_some(),
            said.fail.is_some(),
            said.finish.is_some(),
            said.expect.is_some(),
        ];
        if what.iter().filter(|said| **said).count() != 1 {
            let message = "must have exactly one of apply, delete, fail, finish and expect: write an event for each";
            self.problems.push(source.problem(field, message));
            return;
        }
        if let Some(target) = &said.delete {
            self.delete_object(at, target, source, field);
        }
        if let Some(failed) = &said.fail {
            let field = format!("{field}.fail.pod");
            let pod = (failed.namespace.as_deref(), failed.pod.as_str());
            let what = PodChange::Fails {
                exit_code: failed.exit_code,
                reason: failed.reason.clone(),
            };
            self.change_job_pod(at, pod, what, source, Some(&field));
        }
        if let Some(finished) = &said.finish {
            let field = format!("{field}.finish.pod");
            let pod = (finished.namespace.as_deref(), finished.pod.as_str());
            self.change_job_pod(at, pod, PodChange::Finishes, source, Some(&field));
        }
        let field = format!("{field}.apply");
        let applied = said.apply.as_ref().map(|_| {
            let object = source.document.embedded_object(&field, default_version);
            object.map_err(|problem| problem.with_file(source.file.as_str()))
        });
        let document = match applied {
            Some(Ok(document)) => Some(document),
            Some(Err(problem)) => {
                self.problems.push(problem);
                return;
            }
            None => None,
        };
        let is_job = document
            .as_ref()
            .is_some_and(|d| d.api_version == TRELLIS_VERSION && d.kind == "TrainingJob");
        if said.runtime.is_some() && !is_job {
            let message =
                "is the run time of a TrainingJob, and this event applies none: remove it";
            let field = format!("{}.runtime", event.field);
            self.problems.push(source.problem(&field, message));
        }
        let Some(document) = document else { return };
        if is_job {
            self.apply_job(at, &document, source, said.runtime.map(|span| span.0));
            return;
        }
        match self.apply_object(at, &document, source) {
            Ok(true) => self.retry_unqueued(at),
            Ok(false) => {
                let message = format!("a simulation does not support {:?}", document.kind);
                let field = format!("{field}.kind");
                self.problems.push(source.problem(&field, message));
            }
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Applies an object of the cluster.
    /// Returns false if nothing depends on its kind.
    fn apply_object(
        &mut self,
        at: Time,
        document: &Document,
        source: &SourceObject,
    ) -> Result<bool, Vec<Problem>> {
        if IGNORED_KINDS.contains(&document.kind.as_str()) {
            return Ok(false);
        }
        let mut one = ClusterSnapshot::default();
        let told = |problems| source.to_problems(problems).collect::<Vec<_>>();
        if !one.add_document(document).map_err(told)? {
            return Ok(false);
        }
        if one.has_nameless() {
            let problem = document.problem("metadata.name", "is required: add it");
            return Err(vec![problem.with_file(source.file.as_str())]);
        }
        for node in one.nodes.values() {
            self.change_node(at, node);
        }
        for (key, pod) in &one.pods {
            self.change_pod(at, key, pod);
        }
        for (name, queue) in one.queues.iter().flatten() {
            let queue = engine::to_engine_queue(name, &queue.spec);
            self.script.add(at, ScriptChange::Queue(queue));
        }
        for (name, flavor) in &one.flavors {
            let flavor = engine::to_engine_flavor(name, &flavor.spec);
            self.script.add(at, ScriptChange::Flavor(flavor));
        }
        for (name, topology) in &one.topologies {
            let topology = engine::to_engine_topology(name, &topology.spec);
            self.script.add(at, ScriptChange::Topology(topology));
        }
        let limits = !one.quota_policies.is_empty();
        self.snapshot.overlay(one);
        if limits {
            let quotas = self.snapshot.to_quota_policies();
            self.script.add(at, ScriptChange::Quotas(quotas));
        }
        Ok(true)
    }

    fn change_pod(&mut self, at: Time, key: &Key, pod: &SlimPod) {
        let change = match PodUsage::of(pod) {
            PodUsage::Holds { node, request, .. } => {
                ScriptChange::ExternalPod(engine::pod_key(key), NodeName::new(node), request)
            }
            _ => ScriptChange::ExternalPodDeleted(engine::pod_key(key)),
        };
        self.script.add(at, change);
    }

    /// Applies a job.
    fn apply_job(
        &mut self,
        at: Time,
        document: &Document,
        source: &SourceObject,
        runtime: Option<Duration>,
    ) {
        let mut job: TrainingJob = match document.decode_valid() {
            Ok(job) => job,
            Err(problems) => {
                self.problems.extend(source.to_problems(problems));
                return;
            }
        };
        let namespace = job.metadata.namespace.take();
        job.metadata.namespace = Some(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()));
        let key = Key::from_meta(&job.metadata);
        let submitted = self.jobs.get(&key).copied();
        if submitted == Some(at) {
            let message = format!(
                "TrainingJob \"{key}\" is applied twice at the same time: rename one, or apply it later"
            );
            let problem = document.problem("metadata.name", message);
            self.problems.push(problem.with_file(source.file.as_str()));
            return;
        }
        self.known_jobs.insert(key.clone());
        let submitted = submitted.unwrap_or(at);
        self.jobs.insert(key.clone(), submitted);
        self.unqueued.remove(&key);
        let waiting = UnqueuedJob {
            job,
            runtime,
            submitted,
            reason: String::new(),
        };
        self.submit_or_wait(at, key, waiting);
    }

    /// Queues a job, if it may run and all objects that it needs exist.
    /// Otherwise it records the reason.
    fn submit_or_wait(&mut self, at: Time, key: Key, waiting: UnqueuedJob) {
        let wrong = self.snapshot.policies.load();
        self.notes.extend(wrong);
        if !unlabelled_namespaces::find_unlabelled([&*key.namespace], &self.snapshot).is_empty() {
            self.unlabelled.insert(key.namespace.clone());
        }
        if waiting.job.spec.stage_count() > 1 {
            let note = format!("job {key}: of its stages only the first is simulated");
            self.notes.push(note);
        }
        let requester = self.requester.as_ref();
        let (compiled, standing) =
            job_preparation::prepare_job(waiting.job.clone(), None, requester, &self.snapshot);
        let held = match (compiled, standing) {
            (Some(compiled), Ok((volumes, limits))) => {
                let joining = limits.for_joining_pods().to_draws();
                let mut job = build_queued_job(&compiled, &waiting, volumes, &joining);
                self.group_pods.insert(key, GroupPods::from_job(&compiled));
                job.gang.preempts = !never_preempts(compiled.job().spec(), &self.snapshot);
                job.gang.draws = limits.to_draws();
                let draws = limits.draws.into_iter().map(|draw| draw.limit);
                job.gpu_hour_limits = draws
                    .filter(|l| l.quantity == LimitedQuantity::GpuHours)
                    .collect();
                self.script.add(at, ScriptChange::Job(Box::new(job)));
                return;
            }
            (_, Err(held)) => held,
            // A job that cannot be compiled always has an error.
            (None, Ok(_)) => return,
        };
        let refused = held.is_refused();
        let why = format!("{}: {}", held.reason, held.message);
        if why != waiting.reason {
            let held = WithheldJob {
                id: engine::gang_id(&key),
                refused,
                reason: why.clone(),
            };
            self.script.add(at, ScriptChange::JobWithheld(held));
        }
        self.unqueued.insert(
            key,
            UnqueuedJob {
                reason: why,
                ..waiting
            },
        );
    }

    /// Tries to queue the waiting jobs again, after an object was added or deleted.
    pub(super) fn retry_unqueued(&mut self, at: Time) {
        for (key, waiting) in std::mem::take(&mut self.unqueued) {
            self.submit_or_wait(at, key, waiting);
        }
    }

    /// Returns the complete script.
    pub(super) fn finish(
        mut self,
        events: &[SourcedEvent<'_>],
    ) -> Result<(SimulationScript, Vec<String>), Vec<Problem>> {
        for event in events {
            let Some(expected) = &event.event.expect else {
                continue;
            };
            match expectations::resolve_expectation(expected, event, &self.known_jobs) {
                Ok(expect) => {
                    let at = Time::default().plus(event.event.at.0);
                    self.script.add(at, ScriptChange::Expect(expect));
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
        if !self.has_nodes {
            let note = "there are no nodes, so no job is placed: add some (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        if self.known_jobs.is_empty() {
            let note =
                "there is no TrainingJob, so nothing is simulated: add one (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        let who = PlanRequester::Unknown.assumption_note(&self.snapshot);
        self.notes.extend(who.filter(|_| self.requester.is_none()));
        let unlabelled = self.unlabelled.iter().map(|name| &**name);
        let unlabelled = unlabelled_namespaces::find_unlabelled(unlabelled, &self.snapshot);
        self.notes
            .extend(unlabelled_namespaces::format_note(&unlabelled));
        if self.problems.is_empty() {
            Ok((self.script, self.notes))
        } else {
            Err(self.problems)
        }
    }
}
