//! All policy objects together: which of them take effect, and in which version.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_compiler::hash_of;

use super::ask::Ask;
use super::bounds;
use super::decision::{Decision, Undecided};
use super::evaluate;
use super::object::{ObjectKey, PolicyObject};
use super::part::Part;
use super::problem::Problem;
use super::scene::Scene;
use super::schema::{Schema, SchemaError};
use super::subject::{About, Subject};

/// Makes sets of policies. One is enough for a process.
#[derive(Clone, Debug)]
pub struct Loader {
    schema: Arc<Schema>,
}

/// Load result of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectVerdict {
    /// The object's name and kind.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// State: active, degraded or invalid.
    pub state: ObjectState,
    /// Problems of its current version.
    pub problems: Vec<Problem>,
    /// Warnings: text that takes effect and does less than it seems to.
    pub warnings: Vec<Problem>,
    /// Ids of its policies that take effect: those of its last valid version if it is degraded.
    pub policy_ids: Vec<String>,
}

/// Which version of an object takes effect, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// Its current version takes effect.
    Active,
    /// Its current version is invalid, so its last valid version takes effect.
    Degraded,
    /// It has never been valid. Because the policies of a Deny object are then unknown, no job is
    /// allowed where it reaches.
    Invalid,
}

/// Policies that take effect together: those of the cluster, and those of each namespace. Parts
/// that have not changed are shared with the previous version.
#[derive(Clone, Debug)]
pub struct Policies {
    schema: Arc<Schema>,
    cluster: Arc<Part>,
    namespaces: BTreeMap<String, Arc<Part>>,
    hash: String,
    pace: Pace,
}

/// A callback that runs between two requests of one decision.
#[derive(Clone, Default)]
struct Pace(Option<Arc<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pace").field(&self.0.is_some()).finish()
    }
}

impl Pace {
    fn pause(&self) {
        if let Some(pause) = &self.0 {
            pause();
        }
    }
}

impl Loader {
    /// A loader for the schema of this version.
    ///
    /// # Errors
    /// Never, as the tests show: a fault of Trellis is not to be a panic.
    pub fn new() -> Result<Self, SchemaError> {
        Schema::new().map(Self::of)
    }

    pub(super) fn of(schema: Schema) -> Self {
        Self {
            schema: Arc::new(schema),
        }
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Loads the policies of these objects, which replace all previous ones. Returns the result of
    /// each object, in their order. An object that has become invalid keeps its version from
    /// `previous`, and an unchanged object is not compiled again.
    #[must_use]
    pub fn load(
        &self,
        previous: Option<&Policies>,
        objects: Vec<PolicyObject>,
    ) -> (Policies, Vec<ObjectVerdict>) {
        let order: Vec<_> = objects.iter().map(|object| object.key.clone()).collect();
        let mut parts: BTreeMap<Option<String>, Vec<PolicyObject>> = BTreeMap::new();
        for object in objects {
            let part = parts.entry(object.key.namespace.clone()).or_default();
            part.push(object);
        }
        let cluster = parts.remove(&None).unwrap_or_default();
        let cluster = self.part(previous, None, cluster);
        let namespaces = parts.into_iter().filter_map(|(namespace, objects)| {
            let namespace = namespace?;
            let part = self.part(previous, Some(&namespace), objects);
            Some((namespace, Arc::new(part)))
        });
        let policies = self.whole(cluster, namespaces.collect());
        let mut verdicts: BTreeMap<_, _> = policies
            .verdicts()
            .map(|verdict| (verdict.key.clone(), verdict))
            .collect();
        let verdicts = order.iter().filter_map(|key| verdicts.remove(key));
        let verdicts = verdicts.collect();
        (policies, verdicts)
    }

    /// The policies of the cluster, or of one namespace. `objects` are all that it has; those that
    /// are as in `previous` are not compiled again.
    #[must_use]
    pub fn part(
        &self,
        previous: Option<&Policies>,
        namespace: Option<&str>,
        objects: Vec<PolicyObject>,
    ) -> Part {
        let before = previous.and_then(|policies| policies.find(namespace));
        Part::load(&self.schema, namespace, before, objects)
    }

    /// The policies of the cluster alone, before those of any namespace. In namespaces that have
    /// policies of their own (`awaited`) nothing is decided until [`Policies::with`] has them.
    #[must_use]
    pub fn begin(&self, cluster: Part, awaited: impl IntoIterator<Item = String>) -> Policies {
        let awaited = awaited.into_iter().map(|namespace| {
            let part = Part::awaited(&namespace);
            (namespace, Arc::new(part))
        });
        self.whole(cluster, awaited.collect())
    }

    fn whole(&self, cluster: Part, namespaces: BTreeMap<String, Arc<Part>>) -> Policies {
        let policies = Policies {
            schema: self.schema.clone(),
            cluster: Arc::new(cluster),
            namespaces,
            hash: String::new(),
            pace: Pace::default(),
        };
        policies.hashed()
    }
}

impl Policies {
    /// The same policies, with this part replacing the part of its namespace or of the cluster.
    #[must_use]
    pub fn with(&self, part: Part) -> Self {
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
        policies.hashed()
    }

    fn hashed(mut self) -> Self {
        let namespaces = self.namespaces.iter();
        let namespaces: BTreeMap<_, _> = namespaces.map(|(n, part)| (n, part.hash())).collect();
        self.hash = hash_of(&(self.cluster.hash(), &namespaces));
        self
    }

    /// The same policies, which call `pause` before each request that they decide, so that other
    /// tasks can run during a long decision.
    #[must_use]
    pub fn paced(&self, pause: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            pace: Pace(Some(Arc::new(pause))),
            ..self.clone()
        }
    }

    fn find(&self, namespace: Option<&str>) -> Option<&Part> {
        match namespace {
            None => Some(&*self.cluster),
            Some(namespace) => self.namespaces.get(namespace).map(|part| &**part),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
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
        let own = self.find(Some(namespace)).map_or("", Part::hash);
        format!("{}/{own}", self.cluster.hash())
    }

    /// False if the namespace has policies that have not been loaded yet: nothing is decided there.
    #[must_use]
    pub fn is_loaded(&self, namespace: &str) -> bool {
        !self.find(Some(namespace)).is_some_and(Part::is_awaited)
    }

    /// State and problems of each object, in order.
    pub fn verdicts(&self) -> impl Iterator<Item = ObjectVerdict> {
        self.parts().flat_map(Part::verdicts)
    }

    /// State and problems of the objects of the cluster, or of one namespace.
    pub fn verdicts_of(&self, namespace: Option<&str>) -> impl Iterator<Item = ObjectVerdict> {
        self.find(namespace).into_iter().flat_map(Part::verdicts)
    }

    /// True if any of the policies evicts running jobs.
    #[must_use]
    pub fn evict(&self) -> bool {
        self.parts().any(|part| part.index.evict())
    }

    /// The same policies without an index: every policy is evaluated for every request that its
    /// object reaches. Decisions are the same and slower. For tests and benchmarks.
    #[must_use]
    pub fn without_index(&self) -> Self {
        let bare = |part: &Part| Arc::new(part.without_index(&self.schema));
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
        subject: &Subject<'_>,
        about: &About<'_>,
        asks: impl IntoIterator<Item = &'a Ask>,
    ) -> Vec<Decision> {
        let own = self.find(Some(subject.namespace));
        if own.is_some_and(Part::is_awaited) {
            let awaited = |_| Decision::undecided(Undecided::NotSynced);
            return asks.into_iter().map(awaited).collect();
        }
        let parts: Vec<_> = std::iter::once(&*self.cluster).chain(own).collect();
        let invalid: Vec<_> = parts
            .iter()
            .flat_map(|part| part.invalid(subject))
            .collect();
        let invalid = (!invalid.is_empty()).then_some(Undecided::Invalid(invalid));
        let kept = own.and_then(Part::undecided).or(invalid);
        let indexes: Vec<_> = parts.iter().map(|part| &part.index).collect();
        let need = parts.iter().map(|part| part.need).max().unwrap_or_default();
        let scene = Scene::new(&self.schema, subject, about);
        let decide = |ask| {
            self.pace.pause();
            match &scene {
                Ok(scene) => evaluate::decide(&indexes, subject, scene, ask, kept.as_ref()),
                Err(unmade) => Decision::undecided(Undecided::Unmade(unmade.0.clone())),
            }
        };
        bounds::with_stack(need, || asks.into_iter().map(decide).collect())
    }
}
