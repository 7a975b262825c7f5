//! All policy objects together: which of them take effect, and in which version.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::Enforcement;
use trellis_compiler::hash_of;

use super::ask::Ask;
use super::bounds::{self, Need};
use super::compile::{Checked, Compiled, compile};
use super::decision::{Decision, Undecided};
use super::evaluate;
use super::index::{Index, Twice};
use super::object::{ObjectKey, PolicyObject};
use super::problem::Problem;
use super::scene::Scene;
use super::schema::{SCHEMA_VERSION, Schema, SchemaError};
use super::subject::{About, Subject};

/// Makes sets of policies. One is enough for a process.
#[derive(Clone, Debug)]
pub struct Loader {
    schema: Arc<Schema>,
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectVerdict {
    /// Which.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// Whether it takes effect.
    pub state: ObjectState,
    /// What is wrong with it as it stands.
    pub problems: Vec<Problem>,
    /// What it says in vain.
    pub warnings: Vec<Problem>,
    /// Ids of its policies that take effect: of its last good version, where it is degraded.
    pub policy_ids: Vec<String>,
}

/// Whether an object takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// As it stands.
    Active,
    /// It is wrong as it stands: its last good version takes effect.
    Degraded,
    /// It is wrong, and never was good. What a Deny object might have said is
    /// not known: where it reaches, nothing is allowed.
    Invalid,
}

/// One object, in the version that takes effect.
#[derive(Clone, Debug)]
struct Member {
    /// As it stands.
    wanted: Arc<PolicyObject>,
    /// What came of compiling that.
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// The last version that was good.
    good: Option<(Arc<PolicyObject>, Compiled)>,
}

impl Member {
    fn state(&self) -> ObjectState {
        match (&self.good, self.problems.is_empty()) {
            (Some(_), true) => ObjectState::Active,
            (Some(_), false) => ObjectState::Degraded,
            (None, _) => ObjectState::Invalid,
        }
    }

    fn verdict(&self) -> ObjectVerdict {
        let good = self.good.as_ref();
        ObjectVerdict {
            key: self.wanted.key.clone(),
            uid: self.wanted.uid.clone(),
            generation: self.wanted.generation,
            state: self.state(),
            problems: self.problems.clone(),
            warnings: self.warnings.clone(),
            policy_ids: good
                .map(|(_, compiled)| compiled.ids().collect())
                .unwrap_or_default(),
        }
    }
}

/// Policies that take effect together.
#[derive(Clone, Debug)]
pub struct Policies {
    schema: Arc<Schema>,
    members: BTreeMap<ObjectKey, Member>,
    index: Index,
    hashes: Hashes,
    /// The stack that it takes to evaluate the deepest of them.
    need: Need,
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

    /// The policies of these objects, which are all that there are, and what
    /// became of each, in their order. An object that is no longer good stays
    /// active as it was in `previous`; one that is unchanged is not compiled again.
    #[must_use]
    pub fn load(
        &self,
        previous: Option<&Policies>,
        objects: Vec<PolicyObject>,
    ) -> (Policies, Vec<ObjectVerdict>) {
        let mut members = BTreeMap::new();
        let mut order = Vec::with_capacity(objects.len());
        for object in objects {
            order.push(object.key.clone());
            let before = previous.and_then(|p| p.members.get(&object.key));
            let before = before.filter(|member| member.wanted.uid == object.uid);
            members.insert(object.key.clone(), self.member(before, object));
        }
        let policies = self.assemble(members, Index::add);
        let verdicts = order.iter().filter_map(|key| policies.members.get(key));
        let verdicts = verdicts.map(Member::verdict).collect();
        (policies, verdicts)
    }

    fn member(&self, before: Option<&Member>, object: PolicyObject) -> Member {
        if let Some(same) = before.filter(|member| *member.wanted == object) {
            return same.clone();
        }
        let wanted = Arc::new(object);
        let Checked { result, warnings } = compile(&self.schema, &wanted);
        let (good, problems) = match result {
            Ok(compiled) => (Some((wanted.clone(), compiled)), Vec::new()),
            Err(problems) => (before.and_then(|member| member.good.clone()), problems),
        };
        Member {
            wanted,
            problems,
            warnings,
            good,
        }
    }

    fn assemble(&self, members: BTreeMap<ObjectKey, Member>, add: Add) -> Policies {
        let mut policies = Policies {
            schema: self.schema.clone(),
            hashes: Hashes::of(&members),
            members,
            index: Index::default(),
            need: Need::default(),
        };
        let good = policies.members.values_mut().filter_map(|member| {
            let (object, compiled) = member.good.clone()?;
            Some((member, object, compiled))
        });
        for (member, object, compiled) in good {
            policies.need = policies.need.max(compiled.need);
            let (enforcement, all) = (object.enforcement, &compiled.policies);
            if let Err(Twice(error)) =
                add(&mut policies.index, &self.schema, &object, enforcement, all)
            {
                // Ids are of their object: this cannot be, and would not pass for good.
                let fix = "give each policy another @id";
                member.problems = vec![Problem::new("spec.cedar", error, fix)];
                member.good = None;
            }
        }
        policies
    }
}

type Add = fn(
    &mut Index,
    &Schema,
    &PolicyObject,
    Enforcement,
    &[cedar_policy::Policy],
) -> Result<(), Twice>;

/// Hashes of what decides: the same for the same objects in whatever order.
#[derive(Clone, Debug)]
struct Hashes {
    /// Of all objects.
    all: String,
    /// Of those of the cluster.
    cluster: String,
    /// Of those of each namespace that has any.
    namespaces: BTreeMap<String, String>,
}

impl Hashes {
    fn of(members: &BTreeMap<ObjectKey, Member>) -> Self {
        let mut said: BTreeMap<Option<&str>, Vec<_>> = BTreeMap::new();
        for (key, member) in members {
            let (good, object) = match &member.good {
                Some((object, _)) => (true, object),
                None => (false, &member.wanted),
            };
            said.entry(key.namespace.as_deref()).or_default().push((
                good,
                &key.name,
                object.enforcement,
                object.on_violation,
                &object.selector,
                &object.cedar,
            ));
        }
        let cluster = hash_of(&(SCHEMA_VERSION, said.remove(&None).unwrap_or_default()));
        let namespaces: BTreeMap<String, String> = said
            .into_iter()
            .filter_map(|(namespace, said)| Some((namespace?.to_owned(), hash_of(&said))))
            .collect();
        Self {
            all: hash_of(&(&cluster, &namespaces)),
            cluster,
            namespaces,
        }
    }
}

impl Policies {
    /// Hash of all policies that take effect: what decisions name.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hashes.all
    }

    /// What all that decides about jobs of a namespace hangs on: where it is the
    /// same, so is every decision. Policies of other namespaces do not change it.
    #[must_use]
    pub fn version(&self, namespace: &str) -> String {
        let own = self.hashes.namespaces.get(namespace);
        let own = own.map_or("", String::as_str);
        format!("{}/{own}", self.hashes.cluster)
    }

    /// What is wrong with it and what it does, of each object, in order.
    pub fn verdicts(&self) -> impl Iterator<Item = ObjectVerdict> {
        self.members.values().map(Member::verdict)
    }

    /// True if any of them stops what runs.
    #[must_use]
    pub fn evict(&self) -> bool {
        self.index.evict()
    }

    /// The same policies without an index: every policy is evaluated for every
    /// request that its object reaches. Decisions are the same and cost more:
    /// for measuring and checking.
    #[must_use]
    pub fn without_index(&self) -> Self {
        let loader = Loader {
            schema: self.schema.clone(),
        };
        loader.assemble(
            self.members.clone(),
            |index, _, object, enforcement, policies| index.add_flat(object, enforcement, policies),
        )
    }

    /// Decides each of these requests of one job.
    #[must_use]
    pub fn decide<'a>(
        &self,
        subject: &Subject<'_>,
        about: &About<'_>,
        asks: impl IntoIterator<Item = &'a Ask>,
    ) -> Vec<Decision> {
        let invalid = self.invalid(subject);
        let scene = Scene::new(&self.schema, subject, about);
        let decide = |ask| match &scene {
            Ok(scene) => evaluate::decide(&self.index, subject, scene, ask, &invalid),
            Err(unmade) => Decision::undecided(Undecided::Unmade(unmade.0.clone())),
        };
        bounds::with_stack(self.need, || asks.into_iter().map(decide).collect())
    }

    /// Objects that might forbid something here, if anybody could read them.
    fn invalid(&self, subject: &Subject<'_>) -> Vec<String> {
        let reaching = self.members.values().filter(|member| {
            member.good.is_none()
                && member.wanted.enforcement == Enforcement::Deny
                && member.wanted.may_reach(subject)
        });
        reaching
            .map(|member| member.wanted.key.to_string())
            .collect()
    }
}
