use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};
use trellis_api::job::{JobPhase, PolicyDecision};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{Enforcement, PodGroup, Queue, Reason, TrainingJob};
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
        let build = builds.of(&key(), &self.look(), &Arc::default());
        match &build.result {
            Ok(job) => {
                let job = job.compiled();
                Ok((job.queue().to_owned(), job.priority()))
            }
            Err(Standing::Held { reason, .. }) => Err(*reason),
            Err(Standing::Runnable { .. }) => panic!("runnable, and not built"),
        }
    }

    /// Hash of what its children are kept as.
    fn children(&self, builds: &Builds) -> Option<String> {
        let seen = self.look();
        let build = builds.of(&key(), &seen, &Arc::default());
        build.children(&seen).map(|job| job.hash().to_owned())
    }

    /// The job was planned as it is built now, and its journal is in this phase.
    fn plan(&mut self, phase: PodGroupPhase) {
        let build = Builds::default().of(&key(), &self.look(), &Arc::default());
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
        builds.of(&key(), &case.look(), &Arc::default())
    };
    let reason = |build: &Build| match &build.result {
        Err(Standing::Held { phase, reason, .. }) => Some((*phase, *reason)),
        _ => None,
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
        let build = builds.of(&key(), &case.look(), &Arc::default());
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
