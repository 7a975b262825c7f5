//! The validation rules. Each has a message and, if possible, a CEL expression. The CRD contains
//! the expression, and the library the equivalent function. Both report the same message: the rule
//! and the fix.

mod container;
mod dependencies;
mod elastic;
mod env;
mod job;
mod labels;
mod names;
mod policy;
mod profile;
mod quantities;
mod quota_policy;
mod restart;
mod roles;
mod secret;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use crate::framework;
use crate::validation::Violation;

pub use container::*;
pub use dependencies::*;
pub use elastic::*;
pub use env::*;
pub use job::*;
pub use labels::*;
pub use names::*;
pub use policy::*;
pub use profile::*;
pub use quantities::*;
pub use quota_policy::*;
pub use restart::*;
pub use roles::*;
pub use secret::*;

pub(crate) use container::WHOLE_OBJECT_RULES;
pub(crate) use labels::{job_annotations, job_labels};

/// Returns the rules on changes of a job. Each concerns one field, which the API server names.
pub(crate) fn change_rules() -> impl Iterator<Item = Rule> {
    let of_groups = FIXED_GROUPS
        .into_iter()
        .chain(GROUPS_CHANGED_WHILE_SUSPENDED);
    FIXED_AFTER_ADMISSION
        .into_iter()
        .chain(CHANGED_WHILE_SUSPENDED)
        .chain([SAME_MANAGER, SAME_GROUPS, FIXED_REPLICAS])
        .chain(of_groups)
}

/// Rules on several fields, which no single field can break alone.
const MULTI_FIELD_RULES: [Rule; 31] = [
    POD_NAME,
    GROUP_COUNT,
    UNIQUE_GROUPS,
    ONE_COORDINATOR,
    SOME_WORKER,
    ROLE_OF_FRAMEWORK,
    POD_TOTAL,
    RESERVED_ENV,
    RULE_GROUPS,
    MIN_REPLICAS,
    OUTSIDE_GANG,
    SOME_GANG,
    DEPENDS_ON_EARLIER,
    DEPENDS_ON_GANG,
    DEPENDS_ON_STAGE,
    UNIQUE_DEPENDENCIES,
    BACKOFF,
    QUOTA_COVERS,
    UNIQUE_QUOTA_RESOURCES,
    BORROW_WITHIN,
    MAX_PRIORITY,
    UNIQUE_MOUNTS,
    UNIQUE_PORTS,
    UNIQUE_ENV,
    UNIQUE_SECRETS,
    UNIQUE_LEVEL_LABELS,
    UNIQUE_LEVEL_NAMES,
    ONE_DEVICE_COUNT,
    ONE_BOUND,
    SOME_LIMIT,
    REQUIRED_OR_PREFERRED,
];

/// True if a violation may be caused by a field other than the one that it names.
pub(crate) fn is_multi_field(violation: &Violation) -> bool {
    let mut rules = MULTI_FIELD_RULES
        .into_iter()
        .chain(WHOLE_OBJECT_RULES)
        .chain(framework::job_rules());
    // The names of groups may follow the message.
    rules.any(|rule| violation.message.starts_with(rule.message))
}

/// Returns the only other field that may cause a violation, if there is exactly one.
pub(crate) fn other_field(violation: &Violation) -> Option<String> {
    let of_gpus = [CPU_STATED, MEMORY_STATED];
    let is_it = of_gpus.iter().any(|rule| violation.message == rule.message);
    let (group, _) = violation.path.split_once(".resources.").filter(|_| is_it)?;
    Some(format!("{group}.gpus"))
}

/// One rule: its CEL expression and its message.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    cel: &'static str,
    message: &'static str,
    /// Field that a rule on a whole object concerns, such as `.spec.queueName`.
    field: Option<&'static str>,
}

impl Rule {
    pub(crate) const fn new(cel: &'static str, message: &'static str) -> Self {
        Self {
            cel,
            message,
            field: None,
        }
    }

    /// Attaches the rule to a field of the object, which the API server then names.
    const fn for_field(self, field: &'static str) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }

    /// Returns the rule for a CRD's `x-kubernetes-validations`.
    #[must_use]
    pub fn to_cel_rule(&self) -> kube::core::Rule {
        kube::core::Rule {
            field_path: self.field.map(str::to_owned),
            ..kube::core::Rule::new(self.cel).message(self.message)
        }
    }

    /// Returns the rule in the form that is added to an existing schema.
    pub(crate) fn to_schema_rule(self) -> ValidationRule {
        ValidationRule {
            rule: self.cel.to_owned(),
            message: Some(self.message.to_owned()),
            field_path: self.field.map(str::to_owned),
            ..ValidationRule::default()
        }
    }

    /// Returns the CEL expression.
    pub(crate) const fn cel(&self) -> &'static str {
        self.cel
    }

    /// Returns the message of a refusal by this rule.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        self.message
    }

    /// Returns the result of the rule for a check in the library.
    pub(crate) fn check(&self, ok: bool) -> garde::Result {
        if ok {
            Ok(())
        } else {
            Err(garde::Error::new(self.message))
        }
    }

    /// Returns a violation with details, for rules that only the library checks.
    fn violated(&self, how: &str) -> garde::Result {
        Err(garde::Error::new(format!("{}; {how}", self.message)))
    }
}
