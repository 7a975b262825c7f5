//! The policies of the cluster, or of one namespace. They are loaded and take effect together.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::Enforcement;
use trellis_compiler::hash_of;

use super::bounds::Need;
use super::compile::{Checked, Compiled, compile};
use super::decision::Undecided;
use super::index::{Index, Twice};
use super::object::{ObjectKey, PolicyObject};
use super::problem::Problem;
use super::schema::{SCHEMA_VERSION, Schema};
use super::set::{ObjectState, ObjectVerdict};
use super::subject::Subject;
use super::weight;

/// One object, in the version that takes effect.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The object as it is in the cluster.
    wanted: Arc<PolicyObject>,
    /// Problems and warnings of that version. None: its part is beyond a bound, so it was not
    /// compiled.
    compiled: Option<Messages>,
    /// The last valid version.
    good: Option<(Arc<PolicyObject>, Compiled)>,
}

#[derive(Clone, Debug, Default)]
struct Messages {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Member {
    /// Compiles the object unless it is unchanged. An object that has become invalid keeps its last
    /// valid version.
    fn compiled(schema: &Schema, before: Option<&Self>, object: PolicyObject) -> Self {
        let same = before.filter(|member| *member.wanted == object && member.compiled.is_some());
        if let Some(same) = same {
            return same.clone();
        }
        let wanted = Arc::new(object);
        let Checked { result, warnings } = compile(schema, &wanted);
        let (good, problems) = match result {
            Ok(compiled) => (Some((wanted.clone(), compiled)), Vec::new()),
            Err(problems) => (before.and_then(|member| member.good.clone()), problems),
        };
        Self {
            wanted,
            compiled: Some(Messages { problems, warnings }),
            good,
        }
    }

    /// Keeps the object uncompiled, because its part exceeds a bound.
    fn left_alone(before: Option<&Self>, object: PolicyObject) -> Self {
        if let Some(same) = before.filter(|member| *member.wanted == object) {
            return same.clone();
        }
        Self {
            wanted: Arc::new(object),
            compiled: None,
            good: before.and_then(|member| member.good.clone()),
        }
    }

    fn verdict(&self, excess: Option<&Problem>) -> ObjectVerdict {
        let messages = self.compiled.clone().unwrap_or_default();
        let (state, problems, good) = match (excess, &self.good) {
            (Some(excess), _) => (ObjectState::Invalid, vec![excess.clone()], None),
            (None, None) => (ObjectState::Invalid, messages.problems, None),
            (None, Some(good)) if messages.problems.is_empty() => {
                (ObjectState::Active, Vec::new(), Some(good))
            }
            (None, Some(good)) => (ObjectState::Degraded, messages.problems, Some(good)),
        };
        ObjectVerdict {
            key: self.wanted.key.clone(),
            uid: self.wanted.uid.clone(),
            generation: self.wanted.generation,
            state,
            problems,
            warnings: messages.warnings,
            policy_ids: good
                .map(|(_, compiled)| compiled.ids().collect())
                .unwrap_or_default(),
        }
    }
}

/// Load state of a part, which determines whether its policies decide.
#[derive(Clone, Debug)]
enum LoadState {
    /// The policies decide.
    Loaded,
    /// They have not been loaded yet: a forbid may be among them.
    Awaited,
    /// The objects exceed a bound, so none of them is evaluated.
    Excess(Problem),
}

/// The policies of the cluster, or those of one namespace.
#[derive(Clone, Debug)]
pub struct Part {
    namespace: Option<String>,
    members: BTreeMap<ObjectKey, Member>,
    pub(super) index: Index,
    hash: String,
    /// The stack that it takes to evaluate the deepest of them.
    pub(super) need: Need,
    state: LoadState,
}

pub(super) type Add = fn(
    &mut Index,
    &Schema,
    &PolicyObject,
    Enforcement,
    &[cedar_policy::Policy],
) -> Result<(), Twice>;

impl Part {
    /// Loads all objects of the cluster, or of that namespace. Objects that are unchanged since
    /// `before` are not compiled again.
    pub(super) fn load(
        schema: &Schema,
        namespace: Option<&str>,
        before: Option<&Self>,
        objects: Vec<PolicyObject>,
    ) -> Self {
        let all: Vec<_> = objects.iter().collect();
        // Administrators write the cluster's policies: only each object is bounded, not their sum.
        let excess = namespace.and_then(|_| weight::excess(&all));
        let members = objects.into_iter().map(|object| {
            let before = before.and_then(|part| part.members.get(&object.key));
            let before = before.filter(|member| member.wanted.uid == object.uid);
            let key = object.key.clone();
            let member = match &excess {
                Some(_) => Member::left_alone(before, object),
                None => Member::compiled(schema, before, object),
            };
            (key, member)
        });
        let members = members.collect();
        let state = excess.map_or(LoadState::Loaded, LoadState::Excess);
        Self::assemble(schema, namespace, members, state, Index::add)
    }

    /// A namespace that has objects which have not been loaded.
    pub(super) fn awaited(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            members: BTreeMap::new(),
            index: Index::default(),
            hash: "awaited".to_owned(),
            need: Need::default(),
            state: LoadState::Awaited,
        }
    }

    /// The same part without an index.
    pub(super) fn without_index(&self, schema: &Schema) -> Self {
        let (members, state) = (self.members.clone(), self.state.clone());
        let namespace = self.namespace.as_deref();
        let part = Self::assemble(
            schema,
            namespace,
            members,
            state,
            |index, _, object, enforcement, policies| index.add_flat(object, enforcement, policies),
        );
        Self {
            hash: self.hash.clone(),
            ..part
        }
    }

    fn assemble(
        schema: &Schema,
        namespace: Option<&str>,
        members: BTreeMap<ObjectKey, Member>,
        state: LoadState,
        add: Add,
    ) -> Self {
        let is_loaded = matches!(state, LoadState::Loaded);
        let mut part = Self {
            hash: hash(namespace, is_loaded, &members),
            namespace: namespace.map(str::to_owned),
            members,
            index: Index::default(),
            need: Need::default(),
            state,
        };
        if !is_loaded {
            return part;
        }
        let good = part.members.values_mut().filter_map(|member| {
            let (object, compiled) = member.good.clone()?;
            Some((member, object, compiled))
        });
        for (member, object, compiled) in good {
            part.need = part.need.max(compiled.need);
            let (enforcement, all) = (object.enforcement, &compiled.policies);
            if let Err(Twice(error)) = add(&mut part.index, schema, &object, enforcement, all) {
                // Ids are of their object: this cannot be, and would not pass for good.
                let fix = "give each policy another @id";
                let messages = member.compiled.get_or_insert_default();
                messages.problems = vec![Problem::new("spec.cedar", error, fix)];
                member.good = None;
            }
        }
        part
    }

    /// Namespace of the policies. None: the cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Hash of the policies that decide. It does not depend on the order of the objects.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && !self.is_awaited()
    }

    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.state, LoadState::Awaited)
    }

    pub(super) fn verdicts(&self) -> impl Iterator<Item = ObjectVerdict> {
        let excess = match &self.state {
            LoadState::Excess(problem) => Some(problem),
            LoadState::Loaded | LoadState::Awaited => None,
        };
        self.members
            .values()
            .map(move |member| member.verdict(excess))
    }

    /// Why nothing that these policies reach can be decided but by a forbid of the cluster.
    pub(super) fn undecided(&self) -> Option<Undecided> {
        let denies = |member: &Member| member.wanted.enforcement == Enforcement::Deny;
        match &self.state {
            LoadState::Loaded => None,
            LoadState::Awaited => Some(Undecided::NotSynced),
            LoadState::Excess(problem) => {
                let is_any = self.members.values().any(denies);
                is_any.then(|| Undecided::Excess(format!("{}: {}", problem.message, problem.fix)))
            }
        }
    }

    /// Unreadable objects that might forbid a request of this subject.
    pub(super) fn invalid(&self, subject: &Subject<'_>) -> impl Iterator<Item = String> {
        let reaching = self.members.values().filter(|member| {
            matches!(self.state, LoadState::Loaded)
                && member.good.is_none()
                && member.wanted.enforcement == Enforcement::Deny
                && member.wanted.may_reach(subject)
        });
        reaching.map(|member| member.wanted.key.to_string())
    }
}

fn hash(namespace: Option<&str>, is_loaded: bool, members: &BTreeMap<ObjectKey, Member>) -> String {
    let said = members.iter().map(|(key, member)| {
        let (good, object) = match &member.good {
            Some((object, _)) if is_loaded => (true, object),
            _ => (false, &member.wanted),
        };
        (
            good,
            &key.name,
            object.enforcement,
            object.on_violation,
            &object.selector,
            &object.cedar,
        )
    });
    let said: Vec<_> = said.collect();
    match namespace {
        None => hash_of(&(SCHEMA_VERSION, said)),
        Some(_) => hash_of(&said),
    }
}
