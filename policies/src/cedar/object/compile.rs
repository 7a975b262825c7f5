//! Compiles the text of an object into policies that match the schema, or into a list of all
//! problems.

use std::collections::BTreeSet;

use cedar_policy::{Effect, Policy, PolicyId, PolicySet, ValidationMode};

use super::bounds::{self, StackSize};
use super::lint;
use super::policy_object::PolicyObject;
use super::unknown_requester;
use crate::cedar::problem::PolicyProblem;
use crate::cedar::request::PolicySchema;
use crate::selector::is_valid;

/// Policies of one object at most.
pub(crate) const MAX_POLICIES: usize = 128;
/// Most problems that are reported for one object.
pub(crate) const MAX_PROBLEMS: usize = 20;
/// Longest id that is given by `@id`.
const MAX_ID: usize = 63;

/// The policies of an object that take effect.
#[derive(Clone, Debug)]
pub(crate) struct CompiledPolicies {
    pub(crate) policies: Vec<Policy>,
    /// The stack that it takes to evaluate them.
    pub(crate) stack: StackSize,
    /// True if one of them depends on who requests a job.
    pub(crate) reads_requester: bool,
}

impl CompiledPolicies {
    pub(crate) fn ids(&self) -> impl Iterator<Item = String> {
        self.policies.iter().map(|policy| policy.id().to_string())
    }
}

/// Checks the object before its text is parsed.
pub(crate) fn check_object(object: &PolicyObject) -> Result<StackSize, Vec<PolicyProblem>> {
    if let Some(why) = &object.decode_error {
        let fix = "write it as this version of Trellis has it";
        return Err(vec![PolicyProblem::new(
            "spec",
            format!("does not decode: {why}"),
            fix,
        )]);
    }
    if !object.selector.as_ref().is_none_or(is_valid) {
        return Err(vec![PolicyProblem::new(
            "spec.namespaceSelector",
            "is no selector that Kubernetes takes",
            "use In and NotIn with values, Exists and DoesNotExist without",
        )]);
    }
    bounds::check_text(&object.cedar)
}

/// Compiles the text of an object, on the stack that it takes.
pub(crate) fn compile_policies(
    schema: &PolicySchema,
    object: &PolicyObject,
    need: StackSize,
    warnings: &mut Vec<PolicyProblem>,
) -> Result<CompiledPolicies, Vec<PolicyProblem>> {
    let parsed = parse_policies(&object.cedar)?;
    validate_policies(schema, &object.cedar, &parsed)?;
    let named = assign_ids(object, parsed)?;
    let policies = drop_namespaced_permits(object, named, warnings);
    warnings.extend(lint::lint_object(object, &policies));
    let (policies, reads_requester) = close_for_unknown_requester(policies)?;
    Ok(CompiledPolicies {
        policies,
        stack: match reads_requester {
            true => need.with_operators(unknown_requester::ADDED_OPERATORS),
            false => need,
        },
        reads_requester,
    })
}

/// Replaces the policies that would grant more to an unknown requester than to a known one. Returns
/// whether any policy reads the requester.
fn close_for_unknown_requester(
    policies: Vec<Policy>,
) -> Result<(Vec<Policy>, bool), Vec<PolicyProblem>> {
    let mut reads_requester = false;
    let closed = policies.into_iter().map(|policy| {
        let closed = unknown_requester::close_for_unknown(&policy).map_err(|error| {
            let message = format!("the policy {:?}: {error}", policy.id().to_string());
            let fix = "ask for the requester in another way";
            vec![PolicyProblem::new("spec.cedar", message, fix)]
        })?;
        reads_requester |= closed.is_some();
        Ok(closed.unwrap_or(policy))
    });
    let closed = closed.collect::<Result<_, Vec<PolicyProblem>>>()?;
    Ok((closed, reads_requester))
}

/// The text as policies.
pub(crate) fn parse_policies(text: &str) -> Result<PolicySet, Vec<PolicyProblem>> {
    let set: PolicySet = text.parse().map_err(|errors: cedar_policy::ParseErrors| {
        let problems = errors
            .iter()
            .map(|e| PolicyProblem::from_diagnostic(text, e));
        problems.take(MAX_PROBLEMS).collect::<Vec<_>>()
    })?;
    let problem = if set.templates().next().is_some() {
        (
            "templates are not taken",
            "name the principal and resource, or leave them open",
        )
    } else if set.is_empty() {
        ("has no policy", "write at least one permit or forbid")
    } else if set.num_of_policies() > MAX_POLICIES {
        (
            "has more than 128 policies",
            "split it into several objects",
        )
    } else {
        return Ok(set);
    };
    Err(vec![PolicyProblem::new("spec.cedar", problem.0, problem.1)])
}

/// Strict validation. Cedar's warnings are errors here: a policy that can never apply is a mistake,
/// and text that looks different from how it compares is worse.
fn validate_policies(
    schema: &PolicySchema,
    text: &str,
    set: &PolicySet,
) -> Result<(), Vec<PolicyProblem>> {
    let result = schema.validator().validate(set, ValidationMode::Strict);
    let errors = result
        .validation_errors()
        .map(|e| PolicyProblem::from_diagnostic(text, e));
    let warnings = result
        .validation_warnings()
        .map(|w| PolicyProblem::from_diagnostic(text, w));
    let mut problems: Vec<_> = errors.chain(warnings).collect();
    // One fault is found once for each action that the policy may be about.
    problems
        .sort_by(|a, b| (a.line_and_column(), &a.message).cmp(&(b.line_and_column(), &b.message)));
    problems.dedup_by(|b, a| {
        a.line_and_column() == b.line_and_column()
            && (a.line_and_column().is_some() || a.message == b.message)
    });
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Gives each policy its id: that of the object, and `@id` or the place among its
/// policies, from 0.
fn assign_ids(object: &PolicyObject, set: PolicySet) -> Result<Vec<Policy>, Vec<PolicyProblem>> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let mut named = Vec::new();
    for (index, policy) in in_text_order(&set) {
        let own = match policy.annotation("id") {
            Some(id) => id.to_owned(),
            None => index.to_string(),
        };
        let of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if own.is_empty() || own.len() > MAX_ID || !own.chars().all(of_id) {
            problems.push(PolicyProblem::new(
                "spec.cedar",
                format!("{own:?} cannot be the @id of a policy"),
                "use at most 63 letters, digits, -, _ and .",
            ));
        } else if !seen.insert(own.clone()) {
            problems.push(PolicyProblem::new(
                "spec.cedar",
                format!("two policies have the id {own:?}"),
                "give each another @id; those without one are counted from 0",
            ));
        }
        named.push(policy.new_id(PolicyId::new(format!("{}/{own}", object.key))));
    }
    if problems.is_empty() {
        Ok(named)
    } else {
        Err(problems)
    }
}

/// The policies in the order of the text, by the numbers that Cedar gives them.
fn in_text_order(set: &PolicySet) -> Vec<(usize, &Policy)> {
    let number = |policy: &Policy| {
        let id: &str = policy.id().as_ref();
        id.strip_prefix("policy")
            .and_then(|n| n.parse().ok())
            .unwrap_or(usize::MAX)
    };
    let mut all: Vec<_> = set
        .policies()
        .map(|policy| (number(policy), policy))
        .collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

/// Drops the permits of a namespace's own object: its author could otherwise grant more than the
/// platform does.
fn drop_namespaced_permits(
    object: &PolicyObject,
    all: Vec<Policy>,
    warnings: &mut Vec<PolicyProblem>,
) -> Vec<Policy> {
    if object.key.namespace.is_none() {
        return all;
    }
    let (forbids, permits): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|policy| policy.effect() == Effect::Forbid);
    warnings.extend(permits.iter().map(|permit| {
        PolicyProblem::new(
            "spec.cedar",
            format!(
                "the permit {:?} grants nothing: a JobPolicy only narrows",
                permit.id().to_string()
            ),
            "have it written into a ClusterJobPolicy, or remove it",
        )
    }));
    forbids
}
