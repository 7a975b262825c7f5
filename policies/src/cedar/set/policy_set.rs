//! All policy objects together: which of them take effect, and in which version.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_compiler::hash_of;

use super::load_result::ObjectLoadResult;
use super::policy_part::PolicyPart;
use crate::cedar::evaluation::{RequestDecision, UndecidedReason, decide_request};
use crate::cedar::examination::{Examination, ParsedTestRequest, examine_object};
use crate::cedar::object::{PolicyObject, bounds};
use crate::cedar::problem::PolicyProblem;
use crate::cedar::request::{
    JobAttributes, PolicyRequest, PolicySchema, RequestContext, RequestingNamespace, SchemaError,
};
use trellis_api::job_policy::TestRequest;

/// Makes sets of policies. One is enough for a process.
#[derive(Clone, Debug)]
pub struct PolicyLoader {
    schema: Arc<PolicySchema>,
}

/// Policies that take effect together: those of the cluster, and those of each namespace. Parts
/// that have not changed are shared with the previous version.
#[derive(Clone, Debug)]
pub struct Policies {
    schema: Arc<PolicySchema>,
    cluster: Arc<PolicyPart>,
    namespaces: BTreeMap<String, Arc<PolicyPart>>,
    hash: String,
    pause_hook: PauseHook,
}

/// A callback that runs between two requests of one decision.
#[derive(Clone, Default)]
struct PauseHook(Option<Arc<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for PauseHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pace").field(&self.0.is_some()).finish()
    }
}

impl PauseHook {
    fn pause(&self) {
        if let Some(pause) = &self.0 {
            pause();
        }
    }
}

impl PolicyLoader {
    /// A loader for the schema of this version.
    ///
    /// # Errors
    /// Never, as the tests show: a fault of Trellis is not to be a panic.
    pub fn new() -> Result<Self, SchemaError> {
        PolicySchema::new().map(Self::with_schema)
    }

    pub(crate) fn with_schema(schema: PolicySchema) -> Self {
        Self {
            schema: Arc::new(schema),
        }
    }

    /// Loads the policies of these objects, which replace all previous ones. Returns the result of
    /// each object, in their order. An object that has become invalid keeps its version from
    /// `previous`, and an unchanged object is not compiled again.
    #[must_use]
    pub fn load(
        &self,
        previous: Option<&Policies>,
        objects: Vec<PolicyObject>,
    ) -> (Policies, Vec<ObjectLoadResult>) {
        let order: Vec<_> = objects.iter().map(|object| object.key.clone()).collect();
        let mut parts: BTreeMap<Option<String>, Vec<PolicyObject>> = BTreeMap::new();
        for object in objects {
            let part = parts.entry(object.key.namespace.clone()).or_default();
            part.push(object);
        }
        let cluster = parts.remove(&None).unwrap_or_default();
        let cluster = self.load_part(previous, None, cluster);
        let namespaces = parts.into_iter().filter_map(|(namespace, objects)| {
            let namespace = namespace?;
            let part = self.load_part(previous, Some(&namespace), objects);
            Some((namespace, Arc::new(part)))
        });
        let policies = self.assemble(cluster, namespaces.collect());
        let mut verdicts: BTreeMap<_, _> = policies
            .load_results()
            .map(|verdict| (verdict.key.clone(), verdict))
            .collect();
        let verdicts = order.iter().filter_map(|key| verdicts.remove(key));
        let verdicts = verdicts.collect();
        (policies, verdicts)
    }

    /// The policies of the cluster, or of one namespace. `objects` are all that it has; those that
    /// are as in `previous` are not compiled again.
    #[must_use]
    pub fn load_part(
        &self,
        previous: Option<&Policies>,
        namespace: Option<&str>,
        objects: Vec<PolicyObject>,
    ) -> PolicyPart {
        let before = previous.and_then(|policies| policies.find_part(namespace));
        PolicyPart::load(&self.schema, namespace, before, objects)
    }

    /// The policies of the cluster alone, before those of any namespace. In namespaces that have
    /// policies of their own (`awaited`) nothing is decided until [`Policies::with_part`] has them.
    #[must_use]
    pub fn load_cluster_first(
        &self,
        cluster: PolicyPart,
        awaited: impl IntoIterator<Item = String>,
    ) -> Policies {
        let awaited = awaited.into_iter().map(|namespace| {
            let part = PolicyPart::not_loaded(&namespace);
            (namespace, Arc::new(part))
        });
        self.assemble(cluster, awaited.collect())
    }

    /// Examines one object as loading it does; failed tests are reported and stop nothing.
    ///
    /// # Errors
    /// Lists every problem that keeps the policies from taking effect, except failed tests.
    pub fn examine(&self, object: &PolicyObject) -> Result<Examination, Vec<PolicyProblem>> {
        let (result, warnings) = examine_object(&self.schema, object);
        let (compiled, tests) = result?;
        Ok(Examination {
            policy_ids: compiled.ids().collect(),
            tests,
            warnings,
        })
    }

    fn assemble(
        &self,
        cluster: PolicyPart,
        namespaces: BTreeMap<String, Arc<PolicyPart>>,
    ) -> Policies {
        let policies = Policies {
            schema: self.schema.clone(),
            cluster: Arc::new(cluster),
            namespaces,
            hash: String::new(),
            pause_hook: PauseHook::default(),
        };
        policies.with_hash()
    }
}

impl Policies {
    /// The same policies, with this part replacing the part of its namespace or of the cluster.
    #[must_use]
    pub fn with_part(&self, part: PolicyPart) -> Self {
        let mut policies = self.clone();
        match part.namespace().map(str::to_owned) {
            None => policies.cluster = Arc::new(part),
            Some(namespace) if part.is_empty() => {
                policies.namespaces.remove(&namespace);
            }
            Some(namespace) => {
                policies.namespaces.insert(namespace, Arc::new(part));
            }
        }
        policies.with_hash()
    }

    fn with_hash(mut self) -> Self {
        let namespaces = self.namespaces.iter();
        let namespaces: BTreeMap<_, _> = namespaces.map(|(n, part)| (n, part.hash())).collect();
        self.hash = hash_of(&(self.cluster.hash(), &namespaces));
        self
    }

    /// The same policies, which call `pause` before each request that they decide, so that other
    /// tasks can run during a long decision.
    #[must_use]
    pub fn with_pause(&self, pause: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            pause_hook: PauseHook(Some(Arc::new(pause))),
            ..self.clone()
        }
    }

    fn find_part(&self, namespace: Option<&str>) -> Option<&PolicyPart> {
        match namespace {
            None => Some(&*self.cluster),
            Some(namespace) => self.namespaces.get(namespace).map(|part| &**part),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &PolicyPart> {
        let namespaces = self.namespaces.values().map(|part| &**part);
        std::iter::once(&*self.cluster).chain(namespaces)
    }

    /// Hash of all policies that take effect. Decisions record it.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Version of all policies that decide about jobs of a namespace: equal versions give equal
    /// decisions. Policies of other namespaces do not change it.
    #[must_use]
    pub fn version(&self, namespace: &str) -> String {
        let own = self.find_part(Some(namespace)).map_or("", PolicyPart::hash);
        format!("{}/{own}", self.cluster.hash())
    }

    /// False if the namespace has policies that have not been loaded yet: nothing is decided there.
    #[must_use]
    pub fn is_loaded(&self, namespace: &str) -> bool {
        !self
            .find_part(Some(namespace))
            .is_some_and(PolicyPart::is_not_loaded)
    }

    /// State and problems of each object, in order.
    pub fn load_results(&self) -> impl Iterator<Item = ObjectLoadResult> {
        self.parts().flat_map(PolicyPart::load_results)
    }

    /// State and problems of the objects of the cluster, or of one namespace.
    pub fn load_results_in(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = ObjectLoadResult> {
        self.find_part(namespace)
            .into_iter()
            .flat_map(PolicyPart::load_results)
    }

    /// True if any of the policies evicts running jobs.
    #[must_use]
    pub fn has_evicting_policy(&self) -> bool {
        self.parts().any(|part| part.index.has_evicting_policy())
    }

    /// The same policies without an index: every policy is evaluated for every request that its
    /// object reaches. Decisions are the same and slower. For tests and benchmarks.
    #[must_use]
    pub fn without_index(&self) -> Self {
        let bare = |part: &PolicyPart| Arc::new(part.without_index(&self.schema));
        let namespaces = self.namespaces.iter();
        Self {
            cluster: bare(&self.cluster),
            namespaces: namespaces
                .map(|(n, part)| (n.clone(), bare(part)))
                .collect(),
            ..self.clone()
        }
    }

    /// Decides each of these requests of one job.
    #[must_use]
    pub fn decide<'a>(
        &self,
        subject: &RequestingNamespace<'_>,
        about: &JobAttributes<'_>,
        requests: impl IntoIterator<Item = &'a PolicyRequest>,
    ) -> Vec<RequestDecision> {
        let own = self.find_part(Some(subject.namespace));
        if own.is_some_and(PolicyPart::is_not_loaded) {
            let awaited = |_| RequestDecision::from_undecided(UndecidedReason::NotSynced);
            return requests.into_iter().map(awaited).collect();
        }
        let parts: Vec<_> = std::iter::once(&*self.cluster).chain(own).collect();
        let invalid: Vec<_> = parts
            .iter()
            .flat_map(|part| part.never_valid_objects(subject))
            .collect();
        let invalid = (!invalid.is_empty()).then_some(UndecidedReason::Invalid(invalid));
        let undecided = own.and_then(PolicyPart::undecided_reason).or(invalid);
        let indexes: Vec<_> = parts.iter().map(|part| &part.index).collect();
        let need = parts
            .iter()
            .map(|part| part.stack)
            .max()
            .unwrap_or_default();
        let context = RequestContext::new(&self.schema, subject, about);
        let decide = |request| {
            self.pause_hook.pause();
            match &context {
                Ok(context) => {
                    decide_request(&indexes, subject, context, request, undecided.as_ref())
                }
                Err(error) => RequestDecision::from_undecided(UndecidedReason::InvalidRequest(
                    error.0.clone(),
                )),
            }
        };
        bounds::with_stack(need, || requests.into_iter().map(decide).collect())
    }

    /// Decides the request of a test.
    ///
    /// # Errors
    /// If the request does not name its resource completely.
    pub fn decide_test_request(
        &self,
        request: &TestRequest,
    ) -> Result<RequestDecision, PolicyProblem> {
        let parsed =
            ParsedTestRequest::new(request).map_err(|error| error.into_problem("request"))?;
        let decided = self.decide(
            &parsed.subject(),
            &parsed.job_attributes(),
            [&parsed.policy_request],
        );
        let nothing = || PolicyProblem::new("request", "is not decided", "report it");
        decided.into_iter().next().ok_or_else(nothing)
    }
}
