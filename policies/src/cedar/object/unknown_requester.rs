//! Policies that depend on the requester, where the requester is unknown.
//!
//! A job has no requester if nothing has recorded it, which a user may bring about: for example
//! with a request while the operator's webhook does not answer. So a policy must not grant more to
//! an unknown requester than to any known one. A forbid that reads `context.requester` therefore
//! applies to an unknown requester if it applies to some requester, and a permit only if it applies
//! to each. `context has requester` alone is exact: it is false. So an author decides about unknown
//! requesters by `if context has requester then ... else ...`.

use cedar_policy::{Effect, Policy};
use serde_json::{Value, json};

/// Name of the attribute of the context.
const REQUESTER: &str = "requester";

/// Operators by which the tree of a policy is deeper than its text.
pub(super) const ADDED_OPERATORS: usize = 4;

/// Which truth value an expression takes that depends on the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// True if it may be true.
    Upper,
    /// True if it must be true.
    Lower,
}

impl Bound {
    const fn opposite(self) -> Self {
        match self {
            Self::Upper => Self::Lower,
            Self::Lower => Self::Upper,
        }
    }
}

/// Returns the policy that decides in place of this one, with the same id. None: the policy does
/// not read the requester.
///
/// # Errors
/// If Cedar does not accept the rewritten policy, which never happens.
pub(super) fn close_for_unknown(
    policy: &Policy,
) -> Result<Option<Policy>, Box<dyn std::error::Error>> {
    let mut text = policy.to_json()?;
    let conditions = text.get_mut("conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions.filter(|all| all.iter().any(reads_requester)) else {
        return Ok(None);
    };
    let is_known = json!({"has": {"left": {"Var": "context"}, "attr": REQUESTER}});
    let condition = conjunction(conditions, None);
    let body = match policy.effect() {
        Effect::Forbid => {
            let worst = conjunction(conditions, Some(Bound::Upper));
            or(condition, and(not(is_known), worst))
        }
        Effect::Permit => {
            let worst = conjunction(conditions, Some(Bound::Lower));
            and(condition, or(is_known, worst))
        }
    };
    *conditions = vec![json!({"kind": "when", "body": body})];
    Ok(Some(Policy::from_json(Some(policy.id().clone()), text)?))
}

/// Returns all `when` and `unless` clauses as one expression: exact, or a bound of it.
fn conjunction(conditions: &[Value], bound: Option<Bound>) -> Value {
    let clauses = conditions.iter().map(|condition| {
        let is_unless = is_text(condition, "/kind", "unless");
        let bound = bound.map(|bound| if is_unless { bound.opposite() } else { bound });
        let body = condition.get("body").unwrap_or(&Value::Null);
        let body = match bound {
            Some(bound) => bounded(body, bound, false),
            None => body.clone(),
        };
        if is_unless { not(body) } else { body }
    });
    clauses
        .reduce(and)
        .unwrap_or_else(|| json!({"Value": true}))
}

/// Returns a bound of a Boolean expression over all requesters. `is_guard`: the expression guards
/// an access to the requester, so `context has requester` does not ask whether it is known.
fn bounded(expression: &Value, bound: Bound, is_guard: bool) -> Value {
    let side = |operator: &str, side: &str| expression.pointer(&format!("/{operator}/{side}"));
    if let (Some(left), Some(right)) = (side("&&", "left"), side("&&", "right")) {
        let left = bounded(left, bound, is_guard || reads_requester(right));
        return and(left, bounded(right, bound, is_guard));
    }
    if let (Some(left), Some(right)) = (side("||", "left"), side("||", "right")) {
        return or(
            bounded(left, bound, is_guard),
            bounded(right, bound, is_guard),
        );
    }
    if let Some(negated) = side("!", "arg") {
        return not(bounded(negated, bound.opposite(), is_guard));
    }
    if let (Some(condition), Some(then), Some(otherwise)) = (
        side("if-then-else", "if"),
        side("if-then-else", "then"),
        side("if-then-else", "else"),
    ) {
        let branches = [then, otherwise].map(|branch| bounded(branch, bound, is_guard));
        let [then_bound, else_bound] = branches;
        // The author has decided what holds for an unknown requester.
        if has_requester(condition) {
            return else_bound;
        }
        return match (reads_requester(condition) || reads_requester(then), bound) {
            (true, Bound::Upper) => or(then_bound, else_bound),
            (true, Bound::Lower) => and(then_bound, else_bound),
            (false, _) => json!({"if-then-else":
                {"if": condition, "then": then_bound, "else": else_bound}}),
        };
    }
    if reads_requester(expression) || (is_guard && has_requester(expression)) {
        return json!({"Value": bound == Bound::Upper});
    }
    expression.clone()
}

/// Returns true if the expression depends on more of the requester than whether it is known.
pub(super) fn reads_requester(expression: &Value) -> bool {
    let is_context = |operand: &Value| is_text(operand, "/left/Var", "context");
    let mut rest = vec![expression];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(fields) => {
                for (operator, operand) in fields {
                    match operator.as_str() {
                        "." if is_context(operand) => {
                            if is_text(operand, "/attr", REQUESTER) {
                                return true;
                            }
                        }
                        "has" if is_context(operand) => {}
                        "Var" if operand == "context" => return true,
                        "Value" => {}
                        _ => rest.push(operand),
                    }
                }
            }
            Value::Array(values) => rest.extend(values),
            _ => {}
        }
    }
    false
}

fn has_requester(expression: &Value) -> bool {
    is_text(expression, "/has/left/Var", "context") && is_text(expression, "/has/attr", REQUESTER)
}

fn is_text(value: &Value, pointer: &str, text: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_str) == Some(text)
}

fn and(left: Value, right: Value) -> Value {
    json!({"&&": {"left": left, "right": right}})
}

fn or(left: Value, right: Value) -> Value {
    json!({"||": {"left": left, "right": right}})
}

fn not(argument: Value) -> Value {
    json!({"!": {"arg": argument}})
}
