//! Indexes policies by principal and action, so that policies of other namespaces and actions cost
//! nothing.
//!
//! The index leaves out a policy only if it cannot match: by its object's reach, or by the
//! `principal ==`, `principal in` and `action` of its head.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{ActionConstraint, Effect, EntityUid, Policy, PolicySet, PrincipalConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use trellis_api::Enforcement;

use crate::cedar::object::PolicyObject;
use crate::cedar::request::{EntityKind, PolicySchema, RequestingNamespace};
use crate::selector::selects;
use trellis_api::job_policy::Action;

/// Two policies have one id.
pub(crate) struct DuplicateId(pub(crate) String);

/// Policies that are evaluated together: of one reach.
#[derive(Clone, Debug, Default)]
struct PolicyBundle {
    namespace: Option<String>,
    selector: Option<LabelSelector>,
    policies: PolicySet,
}

impl PolicyBundle {
    fn reaches(&self, subject: &RequestingNamespace<'_>) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|own| own == subject.namespace)
            && (self.selector.is_none() || selects(self.selector.as_ref(), subject.labels))
    }
}

/// Bundles by their reach, as text.
type PolicyBundles = BTreeMap<String, PolicyBundle>;

#[derive(Clone, Debug, Default)]
struct ActionIndex {
    by_action: BTreeMap<Action, PolicyBundles>,
    any_action: PolicyBundles,
}

/// Policies of one enforcement.
#[derive(Clone, Debug, Default)]
struct PrincipalIndex {
    namespaces: BTreeMap<String, ActionIndex>,
    teams: BTreeMap<String, ActionIndex>,
    /// By key and value of one label that the object's selector asks for.
    labels: BTreeMap<String, BTreeMap<String, ActionIndex>>,
    any_principal: ActionIndex,
}

/// Every policy that takes effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyIndex {
    by_enforcement: BTreeMap<Enforcement, PrincipalIndex>,
    /// Ids of the forbids that evict running jobs.
    evicting: BTreeSet<String>,
}

impl PolicyIndex {
    /// Adds the policies of an object.
    ///
    /// # Errors
    /// If two policies have one id, which those of different objects never have.
    pub(crate) fn add(
        &mut self,
        schema: &PolicySchema,
        object: &PolicyObject,
        enforcement: Enforcement,
        policies: &[Policy],
    ) -> Result<(), DuplicateId> {
        self.record_evicting(object, policies);
        let of_enforcement = self.by_enforcement.entry(enforcement).or_default();
        for policy in policies {
            let by_action = of_enforcement.action_index_mut(schema, object, policy);
            for bundles in by_action.bundles_mut(schema, policy) {
                insert_policy(bundles, object, policy)?;
            }
        }
        Ok(())
    }

    /// Adds policies without indexing them by principal and resource: all of them are candidates
    /// wherever their object reaches. Tests and benchmarks compare the index with this.
    pub(crate) fn add_unindexed(
        &mut self,
        object: &PolicyObject,
        enforcement: Enforcement,
        policies: &[Policy],
    ) -> Result<(), DuplicateId> {
        self.record_evicting(object, policies);
        let of_enforcement = self.by_enforcement.entry(enforcement).or_default();
        for policy in policies {
            insert_policy(&mut of_enforcement.any_principal.any_action, object, policy)?;
        }
        Ok(())
    }

    fn record_evicting(&mut self, object: &PolicyObject, policies: &[Policy]) {
        if object.evicts() {
            let forbids = policies.iter().filter(|p| p.effect() == Effect::Forbid);
            self.evicting.extend(forbids.map(|p| p.id().to_string()));
        }
    }

    /// True if any policy evicts running jobs.
    pub(crate) fn has_evicting_policy(&self) -> bool {
        !self.evicting.is_empty()
    }

    /// True if the policy with that id evicts running jobs that it forbids.
    pub(crate) fn is_evicting(&self, id: &str) -> bool {
        self.evicting.contains(id)
    }

    /// All policies that may say something about the request, and some more.
    pub(crate) fn candidates<'a>(
        &'a self,
        enforcement: Enforcement,
        subject: &'a RequestingNamespace<'_>,
        action: Action,
    ) -> impl Iterator<Item = &'a PolicySet> {
        let found = self.by_enforcement.get(&enforcement);
        let found = found
            .into_iter()
            .flat_map(|by| by.matching_indexes(subject));
        found
            .flat_map(move |by| {
                by.by_action
                    .get(&action)
                    .into_iter()
                    .chain([&by.any_action])
            })
            .flat_map(BTreeMap::values)
            .filter(|bundle| bundle.reaches(subject))
            .map(|bundle| &bundle.policies)
    }
}

fn insert_policy(
    bundles: &mut PolicyBundles,
    object: &PolicyObject,
    policy: &Policy,
) -> Result<(), DuplicateId> {
    let namespace = object.key.namespace.clone();
    // Both are plain data and always serialize. If they did not, the policy gets a bundle of its
    // own, under its id.
    let reach = serde_json::to_string(&(&namespace, &object.selector));
    let reach = reach.unwrap_or_else(|_| policy.id().to_string());
    let bundle = bundles.entry(reach).or_insert_with(|| PolicyBundle {
        namespace,
        selector: object.selector.clone(),
        policies: PolicySet::new(),
    });
    let added = bundle.policies.add(policy.clone());
    added.map_err(|error| DuplicateId(error.to_string()))
}

impl PrincipalIndex {
    /// The one place for a policy.
    fn action_index_mut(
        &mut self,
        schema: &PolicySchema,
        object: &PolicyObject,
        policy: &Policy,
    ) -> &mut ActionIndex {
        if let Some(own) = &object.key.namespace {
            return self.namespaces.entry(own.clone()).or_default();
        }
        let is = |uid: &EntityUid, kind| schema.entity_type(kind) == Some(uid.type_name());
        let id = |uid: &EntityUid| uid.id().unescaped().to_owned();
        match policy.principal_constraint() {
            // A namespace is in itself and in its team: in no other namespace.
            PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::In(uid)
            | PrincipalConstraint::IsIn(_, uid)
                if is(&uid, EntityKind::Namespace) =>
            {
                return self.namespaces.entry(id(&uid)).or_default();
            }
            PrincipalConstraint::In(uid) | PrincipalConstraint::IsIn(_, uid)
                if is(&uid, EntityKind::Team) =>
            {
                return self.teams.entry(id(&uid)).or_default();
            }
            _ => {}
        }
        let wanted = object
            .selector
            .as_ref()
            .and_then(|s| s.match_labels.as_ref());
        match wanted.and_then(|labels| labels.first_key_value()) {
            Some((key, value)) => {
                let values = self.labels.entry(key.clone()).or_default();
                values.entry(value.clone()).or_default()
            }
            None => &mut self.any_principal,
        }
    }

    /// Every place where a policy about this namespace may be.
    fn matching_indexes<'a>(
        &'a self,
        subject: &'a RequestingNamespace<'_>,
    ) -> impl Iterator<Item = &'a ActionIndex> {
        let team = subject.team().and_then(|team| self.teams.get(team));
        // Many more labels may be asked for than a namespace has.
        let labelled = subject
            .labels
            .iter()
            .filter_map(|(key, value)| self.labels.get(key)?.get(value));
        self.namespaces
            .get(subject.namespace)
            .into_iter()
            .chain(team)
            .chain(labelled)
            .chain([&self.any_principal])
    }
}

impl ActionIndex {
    /// Every place that a policy must be in: one for each action of its head.
    fn bundles_mut(&mut self, schema: &PolicySchema, policy: &Policy) -> Vec<&mut PolicyBundles> {
        let uids = match policy.action_constraint() {
            ActionConstraint::Any => return vec![&mut self.any_action],
            ActionConstraint::Eq(uid) => vec![uid],
            ActionConstraint::In(uids) => uids,
        };
        let known = |uid: &EntityUid| {
            let mut all = Action::ALL.iter().copied();
            all.find(|action| schema.action_uid(*action) == Some(uid))
        };
        let actions: Option<Vec<_>> = uids.iter().map(known).collect();
        let Some(actions) = actions else {
            // An unknown action may be a group of several.
            return vec![&mut self.any_action];
        };
        for action in &actions {
            self.by_action.entry(*action).or_default();
        }
        let wanted = self
            .by_action
            .iter_mut()
            .filter(|(action, _)| actions.contains(action));
        wanted.map(|(_, bundles)| bundles).collect()
    }
}
