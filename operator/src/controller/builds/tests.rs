mod evicted;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};
use trellis_api::authorization_policy::OnViolation;
use trellis_api::job::{JobPhase, JobProfile, PolicyDecision, TrainingJobStatus};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{Enforcement, PodGroup, Queue, QuotaPolicy, Reason, RuntimeProfile, TrainingJob};
use trellis_policies::cedar::{Loader, ObjectKey, Policies, PolicyObject};

use super::*;
use crate::controller::dereference;
use crate::scheduling::fixtures::{policies, spec_with};
use crate::world::World;

/// A world with one job, "ns/j", and what it is built from.
struct Case {
    world: Arc<World>,
    version: u64,
}

impl Case {
    /// With a default queue, and these fields in the job's spec.
    fn new(more: Value) -> Self {
        let mut case = Self {
            world: World::new().0,
            version: 0,
        };
        let spec = spec_with(more);
        let job: TrainingJob = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "j", "namespace": "ns", "uid": "uid", "resourceVersion": "1"},
            "spec": spec,
        }))
        .unwrap();
        case.world.jobs.observed(key(), job);
        case.queue("default", json!({}));
        case.world.policies.replace(policies());
        case
    }

    /// A queue that anyone may use, and the default of these namespaces.
    fn queue(&mut self, name: &str, default_for: Value) {
        let queue: Queue = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "Queue",
            "metadata": {"name": name, "uid": name, "resourceVersion": self.next()},
            "spec": {"namespaceSelector": {}, "defaultFor": default_for},
        }))
        .unwrap();
        self.world.queues.observed(Key::new("", name), queue);
    }

    fn queue_of(&self, name: &str) -> Queue {
        (*self.world.queues.get(&Key::new("", name)).unwrap()).clone()
    }

    fn queue_is(&mut self, mut queue: Queue) {
        let name = queue.metadata.name.clone().unwrap();
        queue.metadata.resource_version = Some(self.next());
        self.world.queues.observed(Key::new("", &name), queue);
    }

    /// A quota policy of that spec.
    fn limit(&self, name: &str, mut spec: Value) {
        if spec["subject"].is_null() {
            spec["subject"] = json!({});
        }
        let policy: QuotaPolicy = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec,
        }))
        .unwrap();
        let quotas = &self.world.quotas;
        quotas.objects.observed(Key::new("", name), policy);
        quotas.changed();
    }

    fn delete_queue(&self, name: &str) {
        self.world.queues.deleted(&Key::new("", name), name);
    }

    fn default_class(&mut self, value: i32) {
        let class: PriorityClass = serde_json::from_value(json!({
            "metadata": {"name": "standard", "resourceVersion": self.next()},
            "value": value, "globalDefault": true,
        }))
        .unwrap();
        let name = Key::new("", "standard");
        self.world.priority_classes.observed(name, class);
    }

    /// The cluster's default profile has this variable.
    fn profile(&self, name: &str, value: &str) {
        let profile: RuntimeProfile = serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": name, "uid": name},
            "spec": {"globalDefault": true, "env": [{"name": "A", "value": value}]},
        }))
        .unwrap();
        self.world.profiles.take(name, profile.into());
    }

    /// The job's status says that it is at this attempt, with this profile.
    fn status(&mut self, attempt: i64, profile: Option<JobProfile>) {
        let mut job = self.world.jobs.get(&key()).unwrap().as_ref().clone();
        job.metadata.resource_version = Some(self.next());
        job.status = Some(TrainingJobStatus {
            attempt: Some(attempt),
            profile,
            ..TrainingJobStatus::default()
        });
        self.world.jobs.observed(key(), job);
    }

    /// The profile that is told of, and the hash of what its children are kept as.
    fn told(&self, builds: &Builds) -> (Option<JobProfile>, Option<String>) {
        let mut seen = self.look();
        let build = builds.of(&key(), &mut seen, &Arc::default());
        let children = build.children(&seen).map(|job| job.hash().to_owned());
        (build.profile(&seen), children)
    }

    fn next(&mut self) -> String {
        self.version = self.version.saturating_add(1);
        self.version.to_string()
    }

    fn look(&self) -> Surrounded {
        let job = self.world.jobs.get(&key()).unwrap();
        dereference::job(&self.world, &key(), job)
    }

    /// Queue and priority of what the job becomes.
    fn build(&self, builds: &Builds) -> Result<(String, i32), Reason> {
        let build = builds.of(&key(), &mut self.look(), &Arc::default());
        match &build.result {
            Ok(job) => {
                let job = job.compiled();
                Ok((job.queue().to_owned(), job.priority()))
            }
            Err(held) => Err(held.reason),
        }
    }

    /// Hash of what its children are kept as.
    fn children(&self, builds: &Builds) -> Option<String> {
        let mut seen = self.look();
        let build = builds.of(&key(), &mut seen, &Arc::default());
        build.children(&seen).map(|job| job.hash().to_owned())
    }

    /// The job was planned as it is built now, and its journal is in this phase.
    fn plan(&mut self, phase: PodGroupPhase) {
        let build = Builds::default().of(&key(), &mut self.look(), &Arc::default());
        let job = build.result.as_ref().unwrap().compiled();
        let mut group: PodGroup = job.pod_group();
        group.metadata.uid = Some("group".to_owned());
        group.metadata.resource_version = Some(self.next());
        group.status = Some(
            serde_json::from_value(json!({"plan": {
                "hash": "plan", "attempt": 1, "generation": 1, "compiled": job.hash(),
                "queue": job.queue(), "priority": job.priority(), "assignments": [],
            }}))
            .unwrap(),
        );
        group.status.as_mut().unwrap().phase = Some(phase);
        self.world.pod_groups.observed(key(), group);
    }

    fn becomes(&mut self, phase: PodGroupPhase) {
        let mut group = self.world.pod_groups.get(&key()).unwrap().as_ref().clone();
        group.metadata.resource_version = Some(self.next());
        group.status.as_mut().unwrap().phase = Some(phase);
        self.world.pod_groups.observed(key(), group);
    }
}

fn key() -> Key {
    Key::new("ns", "j")
}

fn is(queue: &str, priority: i32) -> Result<(String, i32), Reason> {
    Ok((queue.to_owned(), priority))
}

#[test]
fn who_has_a_place_keeps_its_queue_and_priority_and_who_waits_does_not() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    assert_eq!(case.build(&builds), is("default", 0));
    case.plan(PodGroupPhase::Committing);
    // Of two defaults that ask for as much, the first by name.
    case.queue("a", json!({}));
    case.default_class(7);
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), is("default", 0), "{phase:?}");
    }
    for phase in [
        PodGroupPhase::Unwinding,
        PodGroupPhase::Pending,
        PodGroupPhase::Nominated,
    ] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), is("a", 7), "{phase:?}");
    }
}

/// What holds a place is counted under the policies of now, whether it can be compiled or not.
#[test]
fn who_cannot_be_compiled_any_more_draws_on_the_limits_of_now() {
    let mut case = Case::new(json!({"queue": "default"}));
    case.profile("p", "old");
    case.plan(PodGroupPhase::Placed);
    let mut group = case.world.pod_groups.get(&key()).unwrap().as_ref().clone();
    let plan = group.status.as_mut().unwrap().plan.as_mut().unwrap();
    plan.requester = Some("ada".to_owned());
    group.metadata.resource_version = Some(case.next());
    case.world.pod_groups.observed(key(), group);
    case.limit("all", json!({"limits": {"runningJobs": 1}}));
    let mine = json!({"subject": {"requester": "ada", "queue": "default"}, "each": "Requester", "limits": {"gpuHours": {"hours": 1, "per": "1d"}, "runtimeSecondsPerJob": 1}});
    case.limit("mine", mine);
    let eves = json!({"subject": {"requester": "eve"}, "limits": {"runningJobs": 1}});
    case.limit("eves", eves);
    let others = json!({"subject": {"queue": "other"}, "limits": {"runningJobs": 1}});
    case.limit("others", others);
    let draws = |case: &Case| -> Vec<String> {
        let held = build::held_limits(&case.look()).unwrap();
        assert_eq!(held.requester.as_deref(), Some("ada"));
        assert_eq!(held.version, case.world.quotas.version());
        held.draws
            .iter()
            .map(|draw| draw.limit.to_string())
            .collect()
    };
    let expected = draws(&case);
    assert_eq!(expected.len(), 2, "{expected:?}");
    // As it is told of one that can be compiled.
    let builds = Builds::default();
    let build = builds.of(&key(), &mut case.look(), &Arc::default());
    let told = &build.decided.as_ref().unwrap().limits.draws;
    let told: Vec<_> = told.iter().map(|draw| draw.limit.to_string()).collect();
    assert_eq!(told, expected);
    // An operator that begins anew finds two default profiles, and then no queue.
    case.profile("q", "another");
    let cannot = |case: &Case| {
        let build = Builds::default().of(&key(), &mut case.look(), &Arc::default());
        assert!(build.result.is_err() && build.decided.is_none());
    };
    cannot(&case);
    assert_eq!(draws(&case), expected);
    // Of a queue that is there, shares are counted.
    let half = json!({"resources": [{"resource": "cpu", "percentOfQueue": 50}]});
    case.limit("half", json!({"limits": half}));
    assert_eq!(draws(&case), expected);
    let quotas = json!([{"resource": "cpu", "nominal": 100}]);
    let mut queue = case.queue_of("default");
    queue.spec.resource_groups = serde_json::from_value(json!([
        {"resources": ["cpu"], "flavors": [{"name": "default", "quotas": quotas}]},
    ]))
    .unwrap();
    case.queue_is(queue);
    let held = build::held_limits(&case.look()).unwrap().draws;
    assert_eq!(held.len(), 3);
    assert!(held.iter().any(|draw| draw.max.units_down() == 50));
    case.delete_queue("default");
    cannot(&case);
    assert_eq!(draws(&case), expected);
    case.becomes(PodGroupPhase::Pending);
    assert!(
        build::held_limits(&case.look()).is_none(),
        "it holds nothing"
    );
}

#[test]
fn what_the_job_names_itself_is_its_own() {
    let builds = Builds::default();
    let mut case = Case::new(json!({"queue": "default"}));
    case.plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    case.queue("a", json!({}));
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
}

#[test]
fn children_are_kept_as_they_were_while_there_may_be_pods() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    let good = case.children(&builds);
    assert!(good.is_some());
    case.delete_queue("default");
    assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
    // It waits: nothing of it is there that could do harm.
    assert_eq!(case.children(&builds), None);
    case.queue("default", json!({}));
    case.plan(PodGroupPhase::Placed);
    assert_eq!(case.children(&builds), good);
    case.delete_queue("default");
    for phase in [PodGroupPhase::Placed, PodGroupPhase::Unwinding] {
        case.becomes(phase);
        assert_eq!(case.build(&builds), Err(Reason::QueueNotFound));
        assert_eq!(case.children(&builds), good, "{phase:?}");
    }
    builds.forget(&key());
    assert_eq!(case.children(&builds), None, "it holds no place any more");
}

/// Nothing is remembered, and the journal tells what was allowed.
#[test]
fn a_new_operator_keeps_the_children_that_were_planned() {
    let mut case = Case::new(json!({}));
    let good = case.children(&Builds::default());
    case.plan(PodGroupPhase::Placed);
    case.delete_queue("default");
    assert_eq!(case.children(&Builds::default()), good);
    // Another job than was planned: what it would become nobody has allowed.
    let mut job = case.world.jobs.get(&key()).unwrap().as_ref().clone();
    job.spec.preemptible = Some(false);
    job.metadata.generation = Some(2);
    job.metadata.resource_version = Some(case.next());
    case.world.jobs.observed(key(), job);
    assert_eq!(case.children(&Builds::default()), None);
}

fn set(objects: &[(Option<&str>, &str)]) -> Arc<Policies> {
    let object = |(n, (namespace, cedar)): (usize, &(Option<&str>, &str))| PolicyObject {
        key: ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: format!("p{n}"),
        },
        uid: format!("p{n}"),
        generation: None,
        cedar: (*cedar).to_owned(),
        enforcement: Enforcement::Deny,
        on_violation: OnViolation::Report,
        selector: None,
        tests: Vec::new(),
        unreadable: None,
    };
    let objects = objects.iter().enumerate().map(object).collect();
    Arc::new(Loader::new().unwrap().load(None, objects).0)
}

const ALL: &str = "permit(principal, action, resource);";
const NONE: &str = "forbid(principal, action, resource);";

/// Whatever the decision hangs on is decided on anew, and nothing else.
#[test]
fn other_policies_decide_anew() {
    let case = Case::new(json!({}));
    let builds = Builds::default();
    let of = |objects: &[(Option<&str>, &str)]| {
        case.world.policies.replace(set(objects));
        builds.of(&key(), &mut case.look(), &Arc::default())
    };
    let reason = |build: &Build| match &build.result {
        Err(held) => Some((held.phase, held.reason)),
        Ok(_) => None,
    };
    let allowed = of(&[(None, ALL)]);
    assert_eq!(reason(&allowed), None);
    let told = &allowed.decided.as_ref().unwrap().told;
    assert_eq!(told.decision, Some(PolicyDecision::Allowed));
    // Of another namespace: the very same build.
    assert!(Arc::ptr_eq(
        &allowed,
        &of(&[(None, ALL), (Some("other"), NONE)])
    ));
    let job = allowed.result.as_ref().unwrap();
    assert!(case.world.policies.still_allow(job));
    let denied = of(&[(None, ALL), (Some("ns"), NONE)]);
    let refused = Some((JobPhase::Refused, Reason::PolicyDenied));
    assert_eq!(reason(&denied), refused);
    assert!(!case.world.policies.still_allow(job));
    let overflow =
        "forbid(principal, action, resource) when { context.gpus * 9223372036854775807 > 8 };";
    let undecided = of(&[(None, ALL), (None, overflow)]);
    let waits = Some((JobPhase::Waiting, Reason::PolicyNotEvaluated));
    assert_eq!(reason(&undecided), waits);
    assert_eq!(reason(&of(&[])), refused);
    assert_eq!(reason(&of(&[(None, ALL)])), None);
}

/// Once it may, it is still told at once what no place would ever be found for.
#[test]
fn ports_of_the_node_are_refused_once_policies_grant_the_network() {
    let group = json!([{"name": "w", "image": "i", "resources": {"cpu": 1, "memory": "1Gi"}, "podTemplate": {"spec": {"hostNetwork": true}}}]);
    let case = Case::new(json!({"framework": "PyTorch", "taskGroups": group}));
    assert_eq!(case.build(&Builds::default()), Err(Reason::PolicyDenied));
    case.world.policies.replace(set(&[(None, ALL)]));
    let build = Builds::default().of(&key(), &mut case.look(), &Arc::default());
    let Err(Held {
        phase,
        reason,
        message,
    }) = &build.result
    else {
        panic!("it is built");
    };
    assert_eq!(
        (*phase, *reason),
        (JobPhase::Refused, Reason::ConstraintNotSupported)
    );
    assert!(
        message.contains("their port 29500 is one of the node's"),
        "{message}"
    );
}

#[test]
fn before_the_policies_are_read_nothing_is_built() {
    let mut case = Case::new(json!({}));
    case.world = World::new().0;
    let seen = Case::new(json!({})).world.jobs.get(&key()).unwrap();
    case.world.jobs.observed(key(), (*seen).clone());
    case.queue("default", json!({}));
    assert_eq!(case.build(&Builds::default()), Err(Reason::CacheNotReady));
}

#[test]
fn labels_requester_and_attempt_are_decided_on_anew() {
    let case = Case::new(json!({}));
    let builds = Builds::default();
    let text = "permit(principal, action, resource) when { context.attempt < 3 \
        && context.job.hasTag(\"tier\") && context has requester \
        && context.requester.user == \"ada\" };";
    case.world.policies.replace(set(&[(None, text)]));
    let version = std::cell::Cell::new(10);
    let is_allowed = |labels: Value, stamp: Value, attempt: i64| {
        version.set(version.get() + 1);
        let mut job = (*case.world.jobs.get(&key()).unwrap()).clone();
        job.metadata.resource_version = Some(version.get().to_string());
        job.metadata.labels = serde_json::from_value(labels).unwrap();
        job.metadata.annotations = Some(
            [(
                trellis_api::names::REQUESTED_BY.to_owned(),
                stamp.to_string(),
            )]
            .into(),
        );
        job.status = Some(serde_json::from_value(json!({"attempt": attempt})).unwrap());
        case.world.jobs.observed(key(), job);
        let build = builds.of(&key(), &mut case.look(), &Arc::default());
        build
            .result
            .as_ref()
            .is_ok_and(|job| job.attempt() == attempt)
    };
    let gold = || json!({"tier": "gold"});
    let ada = || json!({"user": "ada"});
    assert!(is_allowed(gold(), ada(), 1));
    assert!(!is_allowed(json!({}), ada(), 1));
    assert!(is_allowed(gold(), ada(), 2));
    assert!(!is_allowed(gold(), json!({"user": "eve"}), 2));
    assert!(is_allowed(gold(), ada(), 2));
    assert!(!is_allowed(gold(), ada(), 3));
}

#[test]
fn who_has_a_place_keeps_its_profile_and_the_next_attempt_has_that_of_now() {
    let builds = Builds::default();
    let mut case = Case::new(json!({}));
    case.profile("p", "old");
    let (old, children) = case.told(&builds);
    assert_eq!(old.as_ref().unwrap().name, "p");
    // Who waits has what is there.
    case.profile("p", "new");
    let (new, other_children) = case.told(&builds);
    assert_ne!(old.as_ref().unwrap().hash, new.as_ref().unwrap().hash);
    assert_ne!(children, other_children);
    case.profile("p", "old");
    case.told(&builds);
    case.plan(PodGroupPhase::Committing);
    assert_eq!(case.told(&builds), (old.clone(), children.clone()));
    case.status(1, old.clone());
    case.profile("p", "new");
    for phase in [PodGroupPhase::Committing, PodGroupPhase::Placed] {
        case.becomes(phase);
        assert_eq!(
            case.told(&builds),
            (old.clone(), children.clone()),
            "{phase:?}"
        );
    }
    // One that is gone is kept, too.
    case.world.profiles.remove("p", "p");
    assert_eq!(case.told(&builds), (old.clone(), children.clone()));
    case.profile("p", "new");
    // Whoever leads next cannot tell what it was: nothing is changed.
    assert_eq!(case.told(&Builds::default()), (old.clone(), None));
    case.status(2, old);
    assert_eq!(case.told(&builds), (new, other_children));
}
