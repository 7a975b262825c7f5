//! Plans jobs with the steps of the operator, from its caches and from a snapshot of the engine. Nothing
//! is written.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use trellis_api::TrainingJob;
use trellis_api::visibility::PlannedJob as Description;
use trellis_compiler::Settings;
use trellis_controller::{UnstoredJob, build_unstored_job};
use trellis_dispatch::context::Context;
use trellis_dispatch::{PlannedAttempt, PlannedGang, SchedulerEvent};
use trellis_gang::engine;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::{PodQuotaFields, QuotaDemand, release_usage};
use trellis_gang::requirements::device_allocation;
use trellis_gang::requirements::flavors::FlavorTolerations;
use trellis_plan::{
    NamespaceQuotas, PlacementFacts, PlannedJob, bind_claims, check_root, choose_steps,
    current_place, describe, hold_without_policies, later_groups, measure_levels, place_jobs,
};
use trellis_policies::cedar::Requester;
use trellis_scheduler::{Engine, FlavorName, Forecast, PodKey, Snapshot};

use super::super::explanations::{self, Explainer, ExplanationSources, Priorities};
use super::super::forecasts::compute_limit;
use super::super::jobs::to_timestamp;
use super::redaction::named_jobs;
use super::smaller_shapes::ShapeSearch;

/// Note about a job that runs already, and keeps its place.
const RUNS_ALREADY: &str = "it holds these nodes already";

/// Everything that a plan depends on.
pub(super) struct Planner<'a> {
    pub(super) context: &'a Context,
    pub(super) settings: &'a Arc<Settings>,
    pub(super) snapshot: &'a Snapshot,
    /// The user who would submit the jobs.
    pub(super) requester: Option<Requester>,
}

/// A job, and the attempt for which it needs a place.
struct PreparedJob {
    planned: PlannedJob,
    existing: Option<Arc<TrainingJob>>,
    /// None: it does not start, or has its place already.
    attempt: Option<PlannedAttempt>,
}

/// Jobs, and an engine in which those that need a place are pending.
struct PendingJobs {
    jobs: Vec<PlannedJob>,
    /// The jobs that the engine decides on.
    pending: BTreeSet<Key>,
    engine: Engine,
    quotas: NamespaceQuotas,
}

impl Planner<'_> {
    /// Plans all jobs together. Returns the outcomes, and the priorities of the jobs that they name.
    /// None: the scheduler has stopped.
    pub(super) fn plan(&self, jobs: Vec<TrainingJob>) -> Option<(Vec<Description>, Priorities)> {
        let prepared = jobs.iter().map(|job| self.prepare(job.clone()));
        let prepared: Vec<PreparedJob> = prepared.collect();
        let existing = prepared.iter().map(|prepared| prepared.existing.clone());
        let existing: Vec<_> = existing.collect();
        let mut all = self.enqueue(prepared)?;
        let before = all.engine.snapshot();
        self.decide(&mut all);
        self.measure_levels(&mut all.jobs);
        let pending = &all.pending;
        let waits = |job: &PlannedJob| !job.would_run() && pending.contains(&job.key);
        let any_waits = all.jobs.iter().any(waits);
        let forecast = any_waits.then(|| Forecast::from_snapshot(&before, compute_limit()));
        let positions = before.positions();
        let mut explainer = Explainer::after_cycle(all.engine);
        let mut search = ShapeSearch::default();
        let classes = self.context.cache.device_classes.all();
        let mut outcomes = Vec::with_capacity(jobs.len());
        for ((planned, job), existing) in all.jobs.iter().zip(&jobs).zip(existing) {
            let mut outcome = describe(planned);
            if waits(planned) {
                let sources = ExplanationSources {
                    snapshot: &before,
                    positions: &positions,
                    forecast: forecast.as_ref(),
                    job: existing,
                    external_gang: None,
                    pod_group: None,
                    recorded: None,
                    order_delay: None,
                    classes: &classes,
                    nodes: &|| self.context.cache.nodes.all(),
                };
                // Claims and ResourceQuotas are no reasons of the engine: it would start the job.
                let explanation = explainer.explain(&planned.key, &sources);
                outcome.explanation = explanation.filter(|own| own.reason == outcome.reason);
                if outcome.reason.is_some_and(explanations::may_help) {
                    let starts = |shape| self.starts_now(shape).unwrap_or(false);
                    outcome.smaller_shapes = search.find(job, planned, starts);
                }
            }
            outcomes.push(outcome);
        }
        let named = outcomes.iter().flat_map(named_jobs);
        let priorities = explanations::priorities(named, &before);
        Some((outcomes, priorities))
    }

    /// Returns true if the job would start now without preemption. None: the scheduler has stopped.
    fn starts_now(&self, job: TrainingJob) -> Option<bool> {
        let mut all = self.enqueue(vec![self.prepare(job)])?;
        self.decide(&mut all);
        let mut jobs = all.jobs.iter();
        Some(jobs.all(|job| job.would_run() && job.victims.is_empty()))
    }

    /// Builds a job, as far as that is possible without the engine.
    fn prepare(&self, job: TrainingJob) -> PreparedJob {
        let cache = &self.context.cache;
        let key = Key::from_meta(&job.metadata);
        let policies = cache.policies.active();
        let requester = self.requester.clone();
        let spec = job.spec.clone();
        let built = build_unstored_job(cache, job.clone(), requester, policies, self.settings);
        let UnstoredJob {
            existing,
            compiled,
            attempt,
            warnings,
        } = built;
        let status = existing.as_ref().and_then(|job| job.status.as_ref());
        let stage = status.map_or(1, |status| status.stage_number());
        let labels = cache.namespace_labels(&key.namespace).unwrap_or_default();
        let attempt = match hold_without_policies(&spec, existing.as_deref()) {
            Some(hold) => Err(hold),
            None => attempt.and_then(|attempt| {
                check_root(attempt.run.job.compiled(), &labels).map(|()| attempt)
            }),
        };
        let warnings = warnings.iter();
        let mut notes: Vec<String> = warnings
            .map(|words| format!("a policy warns: {words}"))
            .collect();
        let group = cache.pod_groups.get(&key);
        let place = attempt
            .as_ref()
            .ok()
            .and_then(|attempt| current_place(attempt.run.job.compiled(), group.as_deref()?));
        let has_place = place.is_some();
        notes.extend(has_place.then(|| RUNS_ALREADY.to_owned()));
        let (place, attempt) = match (place, attempt) {
            (Some(place), _) => (Ok(place), None),
            (None, Ok(attempt)) => (Err(PlannedJob::undecided()), Some(attempt)),
            (None, Err(hold)) => (Err(hold), None),
        };
        PreparedJob {
            planned: PlannedJob {
                later_groups: later_groups(&job, stage),
                key,
                compiled,
                attempt: status.and_then(|status| status.attempt).unwrap_or(1),
                place,
                levels: Vec::new(),
                victims: Vec::new(),
                claims: Vec::new(),
                volumes: attempt
                    .as_ref()
                    .map(|attempt| attempt.run.volumes.clone())
                    .unwrap_or_default(),
                notes,
                has_ended: status.is_some_and(|status| status.has_ended()),
            },
            existing,
            attempt,
        }
    }

    /// Returns an engine in which the jobs are pending. None: the scheduler has stopped.
    fn enqueue(&self, prepared: Vec<PreparedJob>) -> Option<PendingJobs> {
        let (mut jobs, mut attempts) = (Vec::new(), Vec::new());
        for job in prepared {
            jobs.push(job.planned);
            attempts.extend(job.attempt);
        }
        let gangs = self.ask_gangs(attempts)?;
        let keys = gangs.iter().map(|gang| engine::job_key(&gang.gang.id));
        let pending: BTreeSet<Key> = keys.collect();
        let mut engine = Engine::from_snapshot(&self.without(&pending));
        let mut quotas = NamespaceQuotas::default();
        let used = pending.iter().filter_map(|job| self.current_demand(job));
        let used: Vec<QuotaDemand> = used.collect();
        for PlannedGang {
            gang,
            quotas: own,
            promised,
        } in gangs
        {
            let key = engine::job_key(&gang.id);
            engine.apply_gang(gang);
            let free = own.iter().map(|quota| release_usage(quota, &used));
            quotas.quotas.insert(key.namespace.clone(), free.collect());
            quotas.promised.insert(key.namespace, promised);
        }
        Some(PendingJobs {
            jobs,
            pending,
            engine,
            quotas,
        })
    }

    /// Lets the engine decide on the pending jobs, and predicts the claims of those that run.
    fn decide(&self, all: &mut PendingJobs) {
        let cache = &self.context.cache;
        let mut flavors = FlavorTolerations::default();
        for (name, flavor) in cache.flavor_specs() {
            flavors.apply(FlavorName::new(name.as_str()), &flavor);
        }
        let classes = cache.device_classes.all();
        let facts = PlacementFacts {
            flavors: &flavors,
            explain: &|engine, gang, explanation| {
                let nodes = || cache.nodes.all();
                device_allocation::explain_wait(engine, gang, explanation, &classes, nodes)
            },
            now: to_timestamp(self.snapshot.now).unwrap_or_default(),
        };
        place_jobs(&mut all.engine, &facts, &mut all.quotas, &mut all.jobs);
        bind_claims(&mut all.jobs, |job, placement| {
            choose_steps(job, placement, &cache.storage(job.job().namespace()))
        });
    }

    /// Measures how the ranks of each placed job follow the topology.
    fn measure_levels(&self, jobs: &mut [PlannedJob]) {
        let cache = &self.context.cache;
        let topologies = cache.topologies.all();
        let topologies = topologies.iter().map(|topology| {
            let name = topology.metadata.name.as_deref().unwrap_or_default();
            engine::to_engine_topology(name, &topology.spec)
        });
        let topologies: Vec<_> = topologies.collect();
        measure_levels(jobs, &topologies, |name| {
            cache.nodes.get(&Key::new("", name))
        });
    }

    /// Asks the scheduler for the gangs of these attempts.
    fn ask_gangs(&self, attempts: Vec<PlannedAttempt>) -> Option<Vec<PlannedGang>> {
        if attempts.is_empty() {
            return Some(Vec::new());
        }
        let (answer, gangs) = oneshot::channel();
        self.context
            .send_event(SchedulerEvent::AskGangs(attempts, answer));
        gangs.blocking_recv().ok()
    }

    /// Returns the cluster without the gangs and pods of these jobs: what they hold now is free for
    /// them.
    fn without(&self, jobs: &BTreeSet<Key>) -> Cow<'_, Snapshot> {
        let pods_of = |job: &Key| self.context.cache.pods.pods_of_job(job);
        let pods = jobs.iter().flat_map(|job| {
            let pods = pods_of(job);
            let names: Vec<PodKey> = pods
                .keys()
                .map(|name| engine::pod_key(&Key::new(&job.namespace, name)))
                .collect();
            names
        });
        let pods: BTreeSet<PodKey> = pods.collect();
        let known =
            |gang: &trellis_scheduler::GangSnapshot| jobs.contains(&engine::job_key(&gang.gang.id));
        if pods.is_empty() && !self.snapshot.gangs.iter().any(known) {
            return Cow::Borrowed(self.snapshot);
        }
        let mut rest = self.snapshot.clone();
        rest.gangs.retain(|gang| !known(gang));
        rest.pods.retain(|pod| !pods.contains(&pod.pod));
        Cow::Owned(rest)
    }

    /// Returns the demand on ResourceQuotas of the pods that a job has now.
    fn current_demand(&self, job: &Key) -> Option<QuotaDemand> {
        let cache = &self.context.cache;
        let group = cache.pod_groups.get(job)?;
        let pods = cache.pods.pods_of_job(job);
        let stored = cache.jobs.get(job);
        let mut demand = QuotaDemand::default();
        for group in engine::gang_from_pod_group(job, &group).groups {
            let own = pods
                .values()
                .filter(|pod| pod.group == group.name.as_str() && !pod.phase.is_over());
            let fields = PodQuotaFields {
                limits: group.request.clone(),
                priority_class: stored
                    .as_ref()
                    .and_then(|job| job.spec.priority_class_name.clone()),
                ..PodQuotaFields::default()
            };
            let count = i64::try_from(own.count()).unwrap_or(i64::MAX);
            demand.add(count, &group.request, &fields);
        }
        Some(demand)
    }
}
