//! The policies of the cluster, or of one namespace. They are loaded and take effect together.

use std::collections::BTreeMap;
use std::sync::Arc;

use trellis_api::Enforcement;
use trellis_compiler::hash_of;

use super::load_result::{ObjectLoadResult, PolicyObjectState};
use crate::cedar::evaluation::{DuplicateId, PolicyIndex, UndecidedReason};
use crate::cedar::examination::{CompileResult, compile_object};
use crate::cedar::object::bounds::StackSize;
use crate::cedar::object::compile::CompiledPolicies;
use crate::cedar::object::{ObjectKey, PolicyObject, policy_cost};
use crate::cedar::problem::PolicyProblem;
use crate::cedar::request::{PolicySchema, RequestingNamespace, SCHEMA_VERSION};

/// One object, in the version that takes effect.
#[derive(Clone, Debug)]
pub(crate) struct LoadedObject {
    /// The object as it is in the cluster.
    current: Arc<PolicyObject>,
    /// Problems and warnings of that version. None: its part is beyond a bound, so it was not
    /// compiled.
    messages: Option<ObjectMessages>,
    /// The last valid version.
    last_valid: Option<(Arc<PolicyObject>, CompiledPolicies)>,
}

#[derive(Clone, Debug, Default)]
struct ObjectMessages {
    problems: Vec<PolicyProblem>,
    warnings: Vec<PolicyProblem>,
}

impl LoadedObject {
    /// Compiles the object unless it is unchanged. An object that has become invalid keeps its last
    /// valid version.
    fn compile(schema: &PolicySchema, before: Option<&Self>, object: PolicyObject) -> Self {
        let same = before.filter(|member| *member.current == object && member.messages.is_some());
        if let Some(same) = same {
            return same.clone();
        }
        let current = Arc::new(object);
        let CompileResult { result, warnings } = compile_object(schema, &current);
        let (valid, problems) = match result {
            Ok(compiled) => (Some((current.clone(), compiled)), Vec::new()),
            Err(problems) => (
                before.and_then(|member| member.last_valid.clone()),
                problems,
            ),
        };
        Self {
            current,
            messages: Some(ObjectMessages { problems, warnings }),
            last_valid: valid,
        }
    }

    /// Keeps the object uncompiled, because its part exceeds a bound.
    fn keep_uncompiled(before: Option<&Self>, object: PolicyObject) -> Self {
        if let Some(same) = before.filter(|member| *member.current == object) {
            return same.clone();
        }
        Self {
            current: Arc::new(object),
            messages: None,
            last_valid: before.and_then(|member| member.last_valid.clone()),
        }
    }

    fn load_result(&self, excess: Option<&PolicyProblem>) -> ObjectLoadResult {
        let messages = self.messages.clone().unwrap_or_default();
        let (state, problems, valid) = match (excess, &self.last_valid) {
            (Some(excess), _) => (PolicyObjectState::Invalid, vec![excess.clone()], None),
            (None, None) => (PolicyObjectState::Invalid, messages.problems, None),
            (None, Some(valid)) if messages.problems.is_empty() => {
                (PolicyObjectState::Active, Vec::new(), Some(valid))
            }
            (None, Some(valid)) => (PolicyObjectState::Degraded, messages.problems, Some(valid)),
        };
        ObjectLoadResult {
            key: self.current.key.clone(),
            uid: self.current.uid.clone(),
            generation: self.current.generation,
            state,
            problems,
            warnings: messages.warnings,
            policy_ids: valid
                .map(|(_, compiled)| compiled.ids().collect())
                .unwrap_or_default(),
            reads_requester: valid.is_some_and(|(_, compiled)| compiled.reads_requester),
        }
    }
}

/// Load state of a part, which determines whether its policies decide.
#[derive(Clone, Debug)]
enum LoadState {
    /// The policies decide.
    Loaded,
    /// They have not been loaded yet: a forbid may be among them.
    NotLoaded,
    /// The objects exceed a bound, so none of them is evaluated.
    BoundExceeded(PolicyProblem),
}

/// The policies of the cluster, or those of one namespace.
#[derive(Clone, Debug)]
pub struct PolicyPart {
    namespace: Option<String>,
    objects: BTreeMap<ObjectKey, LoadedObject>,
    pub(crate) index: PolicyIndex,
    hash: String,
    /// The stack that it takes to evaluate the deepest of them.
    pub(crate) stack: StackSize,
    state: LoadState,
}

pub(crate) type AddPolicies = fn(
    &mut PolicyIndex,
    &PolicySchema,
    &PolicyObject,
    Enforcement,
    &[cedar_policy::Policy],
) -> Result<(), DuplicateId>;

impl PolicyPart {
    /// Loads all objects of the cluster, or of that namespace. Objects that are unchanged since
    /// `before` are not compiled again.
    pub(crate) fn load(
        schema: &PolicySchema,
        namespace: Option<&str>,
        before: Option<&Self>,
        objects: Vec<PolicyObject>,
    ) -> Self {
        let all: Vec<_> = objects.iter().collect();
        // Administrators write the cluster's policies: only each object is bounded, not their sum.
        let excess = namespace.and_then(|_| policy_cost::exceeded_bound(&all));
        let members = objects.into_iter().map(|object| {
            let before = before.and_then(|part| part.objects.get(&object.key));
            let before = before.filter(|member| member.current.uid == object.uid);
            let key = object.key.clone();
            let member = match &excess {
                Some(_) => LoadedObject::keep_uncompiled(before, object),
                None => LoadedObject::compile(schema, before, object),
            };
            (key, member)
        });
        let members = members.collect();
        let state = excess.map_or(LoadState::Loaded, LoadState::BoundExceeded);
        Self::assemble(schema, namespace, members, state, PolicyIndex::add)
    }

    /// A namespace that has objects which have not been loaded.
    pub(crate) fn not_loaded(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            objects: BTreeMap::new(),
            index: PolicyIndex::default(),
            hash: "awaited".to_owned(),
            stack: StackSize::default(),
            state: LoadState::NotLoaded,
        }
    }

    /// The same part without an index.
    pub(crate) fn without_index(&self, schema: &PolicySchema) -> Self {
        let (members, state) = (self.objects.clone(), self.state.clone());
        let namespace = self.namespace.as_deref();
        let part = Self::assemble(
            schema,
            namespace,
            members,
            state,
            |index, _, object, enforcement, policies| {
                index.add_unindexed(object, enforcement, policies)
            },
        );
        Self {
            hash: self.hash.clone(),
            ..part
        }
    }

    fn assemble(
        schema: &PolicySchema,
        namespace: Option<&str>,
        members: BTreeMap<ObjectKey, LoadedObject>,
        state: LoadState,
        add: AddPolicies,
    ) -> Self {
        let is_loaded = matches!(state, LoadState::Loaded);
        let mut part = Self {
            hash: hash_objects(namespace, is_loaded, &members),
            namespace: namespace.map(str::to_owned),
            objects: members,
            index: PolicyIndex::default(),
            stack: StackSize::default(),
            state,
        };
        if !is_loaded {
            return part;
        }
        let valid = part.objects.values_mut().filter_map(|member| {
            let (object, compiled) = member.last_valid.clone()?;
            Some((member, object, compiled))
        });
        for (member, object, compiled) in valid {
            part.stack = part.stack.max(compiled.stack);
            let (enforcement, all) = (object.enforcement, &compiled.policies);
            if let Err(DuplicateId(error)) = add(&mut part.index, schema, &object, enforcement, all)
            {
                // Ids are of their object: this cannot be, and would not pass for good.
                let fix = "give each policy another @id";
                let messages = member.messages.get_or_insert_default();
                messages.problems = vec![PolicyProblem::new("spec.cedar", error, fix)];
                member.last_valid = None;
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
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && !self.is_not_loaded()
    }

    pub(crate) fn is_not_loaded(&self) -> bool {
        matches!(self.state, LoadState::NotLoaded)
    }

    pub(crate) fn load_results(&self) -> impl Iterator<Item = ObjectLoadResult> {
        let excess = match &self.state {
            LoadState::BoundExceeded(problem) => Some(problem),
            LoadState::Loaded | LoadState::NotLoaded => None,
        };
        self.objects
            .values()
            .map(move |member| member.load_result(excess))
    }

    /// Why nothing that these policies reach can be decided but by a forbid of the cluster.
    pub(crate) fn undecided_reason(&self) -> Option<UndecidedReason> {
        let denies = |member: &LoadedObject| member.current.enforcement == Enforcement::Deny;
        match &self.state {
            LoadState::Loaded => None,
            LoadState::NotLoaded => Some(UndecidedReason::NotSynced),
            LoadState::BoundExceeded(problem) => {
                let is_any = self.objects.values().any(denies);
                is_any.then(|| {
                    UndecidedReason::BoundExceeded(format!("{}: {}", problem.message, problem.fix))
                })
            }
        }
    }

    /// Unreadable objects that might forbid a request of this subject.
    pub(crate) fn never_valid_objects(
        &self,
        subject: &RequestingNamespace<'_>,
    ) -> impl Iterator<Item = String> {
        let reaching = self.objects.values().filter(|member| {
            matches!(self.state, LoadState::Loaded)
                && member.last_valid.is_none()
                && member.current.enforcement == Enforcement::Deny
                && member.current.may_reach(subject)
        });
        reaching.map(|member| member.current.key.to_string())
    }
}

fn hash_objects(
    namespace: Option<&str>,
    is_loaded: bool,
    members: &BTreeMap<ObjectKey, LoadedObject>,
) -> String {
    let hashed = members.iter().map(|(key, member)| {
        let (valid, object) = match &member.last_valid {
            Some((object, _)) if is_loaded => (true, object),
            _ => (false, &member.current),
        };
        (
            valid,
            &key.name,
            object.enforcement,
            object.on_violation,
            &object.selector,
            &object.cedar,
        )
    });
    let hashed: Vec<_> = hashed.collect();
    match namespace {
        None => hash_of(&(SCHEMA_VERSION, hashed)),
        Some(_) => hash_of(&hashed),
    }
}
