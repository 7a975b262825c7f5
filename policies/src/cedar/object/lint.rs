//! Warnings for policies that take effect and do less than they seem to.

use cedar_policy::{Effect, Policy};
use serde_json::Value;
use trellis_api::Enforcement;
use trellis_api::job_policy::OnViolation;

use super::policy_object::PolicyObject;
use crate::cedar::problem::PolicyProblem;

/// Entity type of every principal.
const PRINCIPAL_TYPE: &str = "Trellis::Namespace";
/// The fix for a policy that compares the principal with another type.
const PRINCIPAL_FIX: &str = "write `principal in Trellis::Team::\"...\"` for the namespaces of a team, or \
                    `principal == Trellis::Namespace::\"...\"` for one";

/// All warnings. `active` are the policies that take effect.
pub(crate) fn lint_object(object: &PolicyObject, active: &[Policy]) -> Vec<PolicyProblem> {
    let never = active.iter().filter_map(lint_principal_type);
    never.chain(lint_eviction(object, active)).collect()
}

/// Warns about a condition on the principal that is always or never true, because principals never
/// have that type. Cedar's validator refuses such a condition in a policy's head, or where the
/// whole condition depends on it; elsewhere it does not report it.
fn lint_principal_type(policy: &Policy) -> Option<PolicyProblem> {
    let conditions = policy.to_json().ok()?;
    let mut left = vec![conditions.get("conditions")?];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                let found = fields
                    .iter()
                    .find_map(|(operator, of)| impossible_comparison(operator, of));
                if let Some((operator, type_)) = found {
                    let id = policy.id().to_string();
                    let so = if operator == "!=" { "always" } else { "never" };
                    let what = format!(
                        "the policy {id:?} asks whether the principal {operator} a {type_}, which \
                         is {so} so: who asks is always a {PRINCIPAL_TYPE}"
                    );
                    return Some(PolicyProblem::new("spec.cedar", what, PRINCIPAL_FIX));
                }
                left.extend(fields.values());
            }
            Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    None
}

/// The operator, if it compares the principal, and the type that it never is, as Cedar writes
/// expressions in JSON.
fn impossible_comparison<'a>(operator: &'a str, of: &'a Value) -> Option<(&'a str, &'a str)> {
    let is_principal =
        |side: &str| of.get(side).and_then(|v| v.get("Var")?.as_str()) == Some("principal");
    let type_of = |side: &str| {
        of.get(side)?
            .get("Value")?
            .get("__entity")?
            .get("type")?
            .as_str()
    };
    let type_ = match operator {
        "==" | "!=" if is_principal("left") => type_of("right")?,
        "==" | "!=" if is_principal("right") => type_of("left")?,
        "is" if is_principal("left") => of.get("entity_type")?.as_str()?,
        _ => return None,
    };
    (type_ != PRINCIPAL_TYPE).then_some((operator, type_))
}

/// `onViolation: Evict` of an object that stops nothing.
fn lint_eviction(object: &PolicyObject, active: &[Policy]) -> Option<PolicyProblem> {
    if object.on_violation != OnViolation::Evict {
        return None;
    }
    let (message, fix) = if object.enforcement != Enforcement::Deny {
        (
            format!(
                "Evict stops nothing with enforcement {:?}, which decides nothing",
                object.enforcement
            ),
            "set enforcement: Deny, or leave onViolation out",
        )
    } else if active.iter().any(|p| p.effect() == Effect::Forbid) {
        return None;
    } else {
        (
            "Evict stops nothing: only what a policy of the object forbids is stopped, and none \
             forbids anything"
                .to_owned(),
            "write a forbid, or leave onViolation out",
        )
    };
    Some(PolicyProblem::new("spec.onViolation", message, fix))
}
