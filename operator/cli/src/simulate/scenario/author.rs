//! Writes the script: what each object means at its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trellis_api::TrainingJob;
use trellis_api::document::{Document, Problem};
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::observed::{SlimNode, SlimPod, Unhealthy};
use trellis_gang::pod_usage::PodUsage;
use trellis_policies::cedar::Requester;
use trellis_policies::quota::What;
use trellis_scheduler::{NodeName, Time};

use super::pods::GroupPods;
use super::queued::queued;
use super::{Event, expects};
use crate::plan::input::note_unread;
use crate::plan::judge::never_preempts;
use crate::plan::snapshot::Snapshot;
use crate::plan::who::Who;
use crate::plan::{namespaces, standing};
use crate::simulate::nodes;
use crate::source::Source;
use trellis_simulate::scenario::NodePattern;
use trellis_simulate::{Change, Held, PodChange, Script};

const OURS: &str = "trellis.dev/v1alpha1";
pub(super) const NAMESPACE: &str = "default";

/// Kinds of a cluster that a simulation does not look at. A PodGroup tells of jobs that run, whose
/// end is not known; GPU hours begin at 0, whatever a QuotaLedger says.
const NOT_LOOKED_AT: [&str; 5] = [
    "PodGroup",
    "ResourceQuota",
    "DaemonSet",
    "DeviceClass",
    "QuotaLedger",
];

/// The version of a kind that an event may name without it.
fn version_of(kind: &str) -> Option<&'static str> {
    match kind {
        "Node" | "Pod" | "Namespace" | "Service" => Some("v1"),
        "PriorityClass" => Some("scheduling.k8s.io/v1"),
        "TrainingJob" | "TrainingQueue" | "ResourceFlavor" | "Topology" | "RuntimeProfile"
        | "PodGroup" | "ClusterJobPolicy" | "QuotaPolicy" | "QuotaLedger" | "JobPolicy" => {
            Some(OURS)
        }
        _ => None,
    }
}

/// A job that is not with the engine: what it needs is not there, or it is refused.
pub(super) struct Waiting {
    job: TrainingJob,
    pub(super) runtime: Option<Duration>,
    pub(super) submitted: Time,
    why: String,
}

/// The script so far, and the cluster as it is at that point of it.
#[derive(Default)]
pub(super) struct Author {
    pub(super) script: Script,
    pub(super) snapshot: Snapshot,
    pub(super) waiting: BTreeMap<Key, Waiting>,
    /// Who submits the jobs.
    requester: Option<Requester>,
    /// True if there was a node at any time.
    has_nodes: bool,
    /// Every job that ever was there.
    known: BTreeSet<Key>,
    /// Those that are there.
    pub(super) jobs: BTreeMap<Key, Time>,
    /// The task groups of jobs that have been queued.
    pub(super) pods_of: BTreeMap<Key, Vec<GroupPods>>,
    /// Namespaces whose labels were asked for before anybody knew them.
    unlabelled: BTreeSet<Arc<str>>,
    pub(super) problems: Vec<Problem>,
    notes: Vec<String>,
}

impl Author {
    /// Nothing is there, and jobs are submitted by that user. None: nobody knows by whom.
    pub(super) fn new(requester: Option<Requester>) -> Self {
        Self {
            requester,
            ..Self::default()
        }
    }

    /// Nodes that a pattern stands for, from the beginning.
    pub(super) fn pattern(&mut self, pattern: &NodePattern, source: &Source, field: &str) {
        for value in nodes::expanded(pattern) {
            let Ok(node) = serde_json::from_value::<SlimNode>(value) else {
                let message = "is no node: see docs/simulate.md";
                self.problems.push(source.problem(field, message));
                return;
            };
            let name = node.metadata.name.clone().unwrap_or_default();
            if self.snapshot.nodes.contains_key(&name) {
                let message = format!("node {name:?} is there twice: put {{i}} into the name");
                let field = format!("{field}.name");
                self.problems.push(source.problem(&field, message));
                return;
            }
            self.node(Time::default(), &node);
            self.snapshot.node(node);
        }
    }

    fn node(&mut self, at: Time, node: &SlimNode) {
        self.has_nodes = true;
        self.script
            .at(at, Change::Node(engine::node(node, &Unhealthy::default())));
    }

    /// What the files hold, from the beginning: the cluster first, then the jobs.
    pub(super) fn begin(&mut self, objects: &[Source]) {
        let start = Time::default();
        let (jobs, others): (Vec<_>, Vec<_>) =
            objects.iter().partition(|source| source.is("TrainingJob"));
        for source in others {
            match self.take(start, &source.document, source) {
                Ok(true) => {}
                Ok(false)
                    if source.document.api_version.split('/').next() == OURS.split('/').next()
                        && !NOT_LOOKED_AT.contains(&source.document.kind.as_str()) =>
                {
                    let kind = &source.document.kind;
                    let message = format!(
                        "{kind:?} of {:?} is no kind that there is",
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
        // Where nobody has said which queues there are: that of a fresh install.
        if self.snapshot.queues.is_none() {
            for (name, queue) in self.snapshot.with_queues() {
                let queue = engine::queue(name, &queue.spec);
                self.script.at(start, Change::Queue(queue));
            }
        }
        for source in jobs {
            self.job(start, &source.document, source, None);
        }
    }

    /// What an event means. Expectations are written when all jobs are known.
    pub(super) fn event(&mut self, event: &Event<'_>) {
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
            let message =
                "must say one of apply, delete, fail, finish and expect: write an event for each";
            self.problems.push(source.problem(field, message));
            return;
        }
        if let Some(target) = &said.delete {
            self.delete(at, target, source, field);
        }
        if let Some(failed) = &said.fail {
            let field = format!("{field}.fail.pod");
            let pod = (failed.namespace.as_deref(), failed.pod.as_str());
            let what = PodChange::Fails {
                exit_code: failed.exit_code,
                reason: failed.reason.clone(),
            };
            self.job_pod(at, pod, what, source, Some(&field));
        }
        if let Some(finished) = &said.finish {
            let field = format!("{field}.finish.pod");
            let pod = (finished.namespace.as_deref(), finished.pod.as_str());
            self.job_pod(at, pod, PodChange::Finishes, source, Some(&field));
        }
        let field = format!("{field}.apply");
        let applied = said.apply.as_ref().map(|_| {
            let object = source.document.object(&field, version_of);
            object.map_err(|problem| problem.in_file(source.file.as_str()))
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
            .is_some_and(|d| d.api_version == OURS && d.kind == "TrainingJob");
        if said.runtime.is_some() && !is_job {
            let message = "is how long a TrainingJob runs, and none is applied here: remove it";
            let field = format!("{}.runtime", event.field);
            self.problems.push(source.problem(&field, message));
        }
        let Some(document) = document else { return };
        if is_job {
            self.job(at, &document, source, said.runtime.map(|span| span.0));
            return;
        }
        match self.take(at, &document, source) {
            Ok(true) => self.look_again(at),
            Ok(false) => {
                let message = format!("a simulation does not look at {:?}", document.kind);
                let field = format!("{field}.kind");
                self.problems.push(source.problem(&field, message));
            }
            Err(problems) => self.problems.extend(problems),
        }
    }

    /// Takes an object of the cluster. False if nothing depends on its kind.
    fn take(
        &mut self,
        at: Time,
        document: &Document,
        source: &Source,
    ) -> Result<bool, Vec<Problem>> {
        if NOT_LOOKED_AT.contains(&document.kind.as_str()) {
            return Ok(false);
        }
        let mut one = Snapshot::default();
        let told = |problems| source.all(problems).collect::<Vec<_>>();
        if !one.take(document).map_err(told)? {
            return Ok(false);
        }
        if one.is_nameless() {
            let problem = document.problem("metadata.name", "is required: add it");
            return Err(vec![problem.in_file(source.file.as_str())]);
        }
        for node in one.nodes.values() {
            self.node(at, node);
        }
        for (key, pod) in &one.pods {
            self.pod(at, key, pod);
        }
        for (name, queue) in one.queues.iter().flatten() {
            let queue = engine::queue(name, &queue.spec);
            self.script.at(at, Change::Queue(queue));
        }
        for (name, flavor) in &one.flavors {
            let flavor = engine::flavor(name, &flavor.spec);
            self.script.at(at, Change::Flavor(flavor));
        }
        for (name, topology) in &one.topologies {
            let topology = engine::topology(name, &topology.spec);
            self.script.at(at, Change::Topology(topology));
        }
        let limits = !one.quota_policies.is_empty();
        self.snapshot.overlay(one);
        if limits {
            let quotas = self.snapshot.quotas();
            self.script.at(at, Change::Quotas(quotas));
        }
        Ok(true)
    }

    fn pod(&mut self, at: Time, key: &Key, pod: &SlimPod) {
        let change = match PodUsage::of(pod) {
            PodUsage::Holds { node, request, .. } => {
                Change::Pod(engine::pod_key(key), NodeName::new(node), request)
            }
            _ => Change::PodGone(engine::pod_key(key)),
        };
        self.script.at(at, change);
    }

    /// A job is applied.
    fn job(&mut self, at: Time, document: &Document, source: &Source, runtime: Option<Duration>) {
        let mut job: TrainingJob = match document.valid() {
            Ok(job) => job,
            Err(problems) => {
                self.problems.extend(source.all(problems));
                return;
            }
        };
        let namespace = job.metadata.namespace.take();
        job.metadata.namespace = Some(namespace.unwrap_or_else(|| NAMESPACE.to_owned()));
        let key = Key::of(&job.metadata);
        let submitted = self.jobs.get(&key).copied();
        if submitted == Some(at) {
            let message = format!(
                "TrainingJob \"{key}\" is applied twice at the same time: rename one, or apply it later"
            );
            let problem = document.problem("metadata.name", message);
            self.problems.push(problem.in_file(source.file.as_str()));
            return;
        }
        self.known.insert(key.clone());
        let submitted = submitted.unwrap_or(at);
        self.jobs.insert(key.clone(), submitted);
        self.waiting.remove(&key);
        let waiting = Waiting {
            job,
            runtime,
            submitted,
            why: String::new(),
        };
        self.submit(at, key, waiting);
    }

    /// Queues a job, if all is there that it needs and it may; else says why not.
    fn submit(&mut self, at: Time, key: Key, waiting: Waiting) {
        let wrong = self.snapshot.policies.load();
        self.notes.extend(wrong);
        if !namespaces::missing([&*key.namespace], &self.snapshot).is_empty() {
            self.unlabelled.insert(key.namespace.clone());
        }
        if waiting.job.spec.stages() > 1 {
            let note = format!("job {key}: of its stages only the first is simulated");
            self.notes.push(note);
        }
        let requester = self.requester.as_ref();
        let (compiled, standing) =
            standing::stand(waiting.job.clone(), None, requester, &self.snapshot);
        let held = match (compiled, standing) {
            (Some(compiled), Ok((volumes, limits))) => {
                let joining = limits.joining().draws();
                let mut job = queued(&compiled, &waiting, volumes, &joining);
                self.pods_of.insert(key, GroupPods::of(&compiled));
                job.gang.preempts = !never_preempts(compiled.job().spec(), &self.snapshot);
                job.gang.draws = limits.draws();
                let draws = limits.draws.into_iter().map(|draw| draw.limit);
                job.hours = draws.filter(|l| l.what == What::GpuHours).collect();
                self.script.at(at, Change::Job(Box::new(job)));
                return;
            }
            (_, Err(held)) => held,
            // What is not compiled is held for a reason.
            (None, Ok(_)) => return,
        };
        let refused = held.is_refused();
        let why = format!("{}: {}", held.reason, held.message);
        if why != waiting.why {
            let held = Held {
                id: engine::id(&key),
                refused,
                reason: why.clone(),
            };
            self.script.at(at, Change::Held(held));
        }
        self.waiting.insert(key, Waiting { why, ..waiting });
    }

    /// Something is there, or gone, that jobs may need.
    pub(super) fn look_again(&mut self, at: Time) {
        for (key, waiting) in std::mem::take(&mut self.waiting) {
            self.submit(at, key, waiting);
        }
    }

    /// The whole script.
    pub(super) fn finish(
        mut self,
        events: &[Event<'_>],
    ) -> Result<(Script, Vec<String>), Vec<Problem>> {
        for event in events {
            let Some(expected) = &event.event.expect else {
                continue;
            };
            match expects::resolve(expected, event, &self.known) {
                Ok(expect) => {
                    let at = Time::default().plus(event.event.at.0);
                    self.script.at(at, Change::Expect(expect));
                }
                Err(problems) => self.problems.extend(problems),
            }
        }
        if !self.has_nodes {
            let note = "there are no nodes, so no job is placed: add some (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        if self.known.is_empty() {
            let note =
                "there is no TrainingJob, so nothing is simulated: add one (docs/simulate.md)";
            self.notes.push(note.to_owned());
        }
        let who = Who::Unknown.assumed(&self.snapshot);
        self.notes.extend(who.filter(|_| self.requester.is_none()));
        let unlabelled = self.unlabelled.iter().map(|name| &**name);
        let unlabelled = namespaces::missing(unlabelled, &self.snapshot);
        self.notes.extend(namespaces::note(&unlabelled));
        if self.problems.is_empty() {
            Ok((self.script, self.notes))
        } else {
            Err(self.problems)
        }
    }
}
