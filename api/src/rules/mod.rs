//! The validation rules. Each has a message and, if possible, a CEL expression. The CRD contains
//! the expression, and the library the equivalent function. Both report the same message: the rule
//! and the fix.

mod container;
mod dependencies;
mod elastic;
mod env;
mod job;
mod labels;
mod leader_term;
mod names;
mod policy;
mod profile;
mod provisioning;
mod quantities;
mod quota_policy;
mod restart;
mod roles;
mod rule;
mod same_flavor;
mod secret;
mod slices;
mod split_world;

use crate::framework;
use crate::validation::Violation;

pub use container::*;
pub use dependencies::*;
pub use elastic::*;
pub use env::*;
pub use job::*;
pub use labels::*;
pub use leader_term::*;
pub use names::*;
pub use policy::*;
pub use profile::*;
pub use provisioning::*;
pub use quantities::number_ranges::*;
pub use quantities::*;
pub use quota_policy::*;
pub use restart::*;
pub use roles::*;
pub use rule::Rule;
pub use same_flavor::*;
pub use secret::*;
pub use slices::*;
pub use split_world::*;

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
        .chain([SAME_MANAGER, SAME_GROUPS, FIXED_REPLICAS, FIXED_SLICE_SCOPE])
        .chain(of_groups)
}

/// Rules on several fields, which no single field can break alone.
const MULTI_FIELD_RULES: [Rule; 47] = [
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
    SAME_FLAVOR,
    UNIQUE_DEPENDENCIES,
    BACKOFF,
    QUOTA_COVERS,
    UNIQUE_QUOTA_RESOURCES,
    UNIQUE_FLAVORS,
    BORROW_WITHIN,
    FAIR_SHARE,
    MAX_PRIORITY,
    PROVISIONING_METHOD,
    PROVISIONING_METHOD_FIXED,
    UNIQUE_MOUNTS,
    UNIQUE_PORTS,
    UNIQUE_ENV,
    UNIQUE_SECRETS,
    UNIQUE_PULL_SECRETS,
    UNIQUE_LEVEL_LABELS,
    UNIQUE_LEVEL_NAMES,
    ONE_DEVICE_COUNT,
    ONE_BOUND,
    SOME_LIMIT,
    BALANCED,
    SLICE_POLICY,
    SLICE_LAYERS,
    SLICES_OF_REPLICAS,
    SLICES_IN_GANG,
    MIN_SLICES,
    SLICE_SCOPE,
    SLICE_LEVELS,
    SLICE_BOUND,
    SLICES_OF_WORLD,
    SPLIT_WORLD,
];

/// True if a violation may be caused by a field other than the one that it names.
pub(crate) fn is_multi_field(violation: &Violation) -> bool {
    let mut rules = MULTI_FIELD_RULES
        .into_iter()
        .chain(WHOLE_OBJECT_RULES)
        .chain(framework::job_rules());
    // The names of groups may follow the message.
    rules.any(|rule| violation.message.starts_with(rule.message()))
}

/// Returns the only other field that may cause a violation, if there is exactly one.
pub(crate) fn other_field(violation: &Violation) -> Option<String> {
    let of_gpus = [CPU_STATED, MEMORY_STATED];
    let is_it = of_gpus
        .iter()
        .any(|rule| violation.message == rule.message());
    let (group, _) = violation.path.split_once(".resources.").filter(|_| is_it)?;
    Some(format!("{group}.gpus"))
}
