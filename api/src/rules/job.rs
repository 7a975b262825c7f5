//! Rules on a whole job, on a whole queue, and on changes.

use std::collections::BTreeSet;

use super::rule::Rule;
use crate::job::{Restart, TaskGroup};
use crate::names::MAX_LABEL_LENGTH;
use crate::queue::{
    BorrowWithinCohort, BorrowWithinCohortPolicy, FairShareVictims, FlavorQuotas, QueuePreemption,
    ReclaimWithinCohort, ResourceGroup,
};

/// Largest number of pods of one job.
pub const MAX_PODS: u32 = 10_000;
/// Largest number of task groups of one job.
pub const MAX_GROUPS: usize = 16;

/// Pod names are valid hostnames.
pub const POD_NAME: Rule = Rule::new(
    "self.spec.taskGroups.all(g, size(self.metadata.name) + size(g.name) + size(string((has(g.replicas) ? g.replicas : 1) - 1)) + 2 <= 63)",
    "pods are named <job>-<group>-<index>, which is their hostname and must have at most 63 characters: shorten metadata.name or the group's name",
)
.for_field(".metadata.name");
/// Number of task groups.
pub const GROUP_COUNT: Rule = Rule::new("true", "must have 1 to 16 task groups");
/// Task groups have different names. In the CRD the list is a map, so the API server checks this.
pub const UNIQUE_GROUPS: Rule = Rule::new("true", "task groups must have different names");
/// Number of pods of a job.
pub const POD_TOTAL: Rule = Rule::new(
    "self.taskGroups.map(g, has(g.replicas) ? g.replicas : 1).sum() <= 10000",
    "the replicas of all task groups together must be at most 10000: split the work into several jobs",
);
/// The first back-off is not longer than the longest one.
pub const BACKOFF: Rule = Rule::new(
    "(has(self.backoffSeconds) ? self.backoffSeconds : 10) <= (has(self.maxBackoffSeconds) ? self.maxBackoffSeconds : 300)",
    "backoffSeconds (10 if absent) must be at most maxBackoffSeconds (300 if absent)",
);
/// Flavors give quota for exactly the covered resources.
pub const QUOTA_COVERS: Rule = Rule::new(
    "self.flavors.all(f, size(f.resources) == size(self.coveredResources) && f.resources.all(q, q.name in self.coveredResources))",
    "every flavor must have one entry of resources for each of coveredResources, and no other",
);
/// A flavor is in a resource group once. In the CRD the list is a map, so the API server checks
/// this.
pub const UNIQUE_FLAVORS: Rule = Rule::new(
    "true",
    "must name each flavor once: put its resources into one entry",
);
/// A resource is in only one resource group.
pub const UNIQUE_QUOTA_RESOURCES: Rule = Rule::new(
    "self.all(g, g.coveredResources.all(r, self.exists_one(o, r in o.coveredResources)))",
    "a resource must be in one resource group alone",
);

/// Preemption by a borrowing queue requires reclaim, as in Kueue.
pub const BORROW_WITHIN: Rule = Rule::new(
    "!has(self.borrowWithinCohort) || !has(self.borrowWithinCohort.policy) || self.borrowWithinCohort.policy == 'Never' || (has(self.reclaimWithinCohort) && self.reclaimWithinCohort != 'Never')",
    "borrowWithinCohort.policy LowerPriority needs reclaimWithinCohort LowerPriority or Any: set reclaimWithinCohort, or leave borrowWithinCohort out",
);
/// A queue takes borrowed quota by its share or by priority, not by both: two queues could otherwise
/// preempt each other in turn.
pub const FAIR_SHARE: Rule = Rule::new(
    "!has(self.fairShare) || self.fairShare == 'Never' || !has(self.borrowWithinCohort) || !has(self.borrowWithinCohort.policy) || self.borrowWithinCohort.policy == 'Never'",
    "fairShare and borrowWithinCohort exclude each other: leave one of them out, or set it to Never",
);
/// A bound on the priority of victims requires a policy that permits victims.
pub const MAX_PRIORITY: Rule = Rule::new(
    "!has(self.maxPriorityThreshold) || (has(self.policy) && self.policy == 'LowerPriority')",
    "maxPriorityThreshold needs policy LowerPriority: set policy, or leave maxPriorityThreshold out",
);

/// CEL: true before the job has had its first place. Any field may change then.
macro_rules! before_admission {
    () => {
        "!has(oldSelf.status) || !has(oldSelf.status.admittedTime)"
    };
}

/// CEL: true before the first place, and while the job is suspended.
macro_rules! before_admission_or_suspended {
    () => {
        concat!(
            before_admission!(),
            " || (has(oldSelf.status.phase) && oldSelf.status.phase == 'Suspended')"
        )
    };
}

/// Creates a rule on changes for each of these fields of a job.
macro_rules! fields {
    ($may:ident, $words:literal; $($field:literal),+) => {
        [$(Rule::new(
            concat!(
                $may!(), " || (has(self.spec.", $field, ") == has(oldSelf.spec.", $field,
                ") && (!has(self.spec.", $field, ") || self.spec.", $field, " == oldSelf.spec.", $field, "))"
            ),
            $words,
        )
        .for_field(concat!(".spec.", $field))),+]
    };
}

/// Creates a rule on changes of one field of task groups. The expression compares whole lists,
/// since comparing each group with each would exceed the API server's cost budget. If the names of
/// the groups change, only [`SAME_GROUPS`] reports it.
macro_rules! field_of_groups {
    ($may:ident, $words:literal, $field:literal, $value:expr) => {
        Rule::new(
            concat!(
                $may!(),
                " || self.spec.taskGroups.map(g, g.name) != oldSelf.spec.taskGroups.map(g, g.name)",
                " || self.spec.taskGroups.map(g, ",
                $value,
                ") == oldSelf.spec.taskGroups.map(g, ",
                $value,
                ")"
            ),
            concat!($field, " of a task group ", $words),
        )
        .for_field(".spec.taskGroups")
    };
}

/// Creates such a rule for each of these fields; required fields come first.
macro_rules! fields_of_groups {
    ($may:ident, $words:literal; [$($required:literal),*], $($field:literal),+) => {
        [
            $(field_of_groups!($may, $words, $required, concat!("g.", $required)),)*
            $(field_of_groups!($may, $words, $field, concat!("has(g.", $field, ") ? [g.", $field, "] : []"))),+
        ]
    };
}

/// Fields of a job that are immutable after its first placement.
pub const FIXED_AFTER_ADMISSION: [Rule; 7] = fields!(
    before_admission,
    "is fixed once the job has had its first place: create a new job";
    "framework",
    "profile",
    "success",
    "serviceAccountName",
    "securityContext",
    "network",
    "podMetadata"
);
/// The manager of a job never changes, so two managers cannot conflict: as for a batch/v1 Job
/// (KEP-4368).
pub const SAME_MANAGER: Rule = Rule::new(
    "has(self.spec.managedBy) == has(oldSelf.spec.managedBy) && (!has(self.spec.managedBy) || self.spec.managedBy == oldSelf.spec.managedBy)",
    "is fixed once the job is there: create a new job",
)
.for_field(".spec.managedBy");
/// Names and order of the task groups are immutable after the first placement.
pub const SAME_GROUPS: Rule = Rule::new(
    concat!(
        before_admission!(),
        " || self.spec.taskGroups.map(g, g.name) == oldSelf.spec.taskGroups.map(g, g.name)"
    ),
    "the names of the task groups and their order are fixed once the job has had its first place: create a new job",
)
.for_field(".spec.taskGroups");
/// Fields of task groups that are immutable after the first placement.
pub const FIXED_GROUPS: [Rule; 13] = fields_of_groups!(
    before_admission,
    "is fixed once the job has had its first place: create a new job";
    [],
    "minReplicas",
    "membership",
    "dependsOn",
    "role",
    "command",
    "args",
    "env",
    "envFrom",
    "workingDir",
    "sharedMemory",
    "mounts",
    "ports",
    "podTemplate"
);
/// `replicas` is immutable after the first placement, unless the group has `minReplicas`.
pub const FIXED_REPLICAS: Rule = field_of_groups!(
    before_admission,
    "is fixed once the job has had its first place, where it has no minReplicas: create a new job",
    "replicas",
    "has(g.minReplicas) ? [] : has(g.replicas) ? [g.replicas] : []"
);
/// The scope of restarts decides if the slices of a group are worlds of their own, so it is immutable
/// after the first placement of a job with slices.
pub const FIXED_SLICE_SCOPE: Rule = Rule::new(
    concat!(
        before_admission!(),
        " || !self.spec.taskGroups.exists(g, has(g.topology) && has(g.topology.slices) && size(g.topology.slices) > 0) || (has(self.spec.restart) && has(self.spec.restart.scope) ? self.spec.restart.scope : '') == (has(oldSelf.spec.restart) && has(oldSelf.spec.restart.scope) ? oldSelf.spec.restart.scope : '')"
    ),
    "restart.scope of a job with slices is fixed once the job has had its first place: create a new job",
)
.for_field(".spec.restart");
/// Fields of a job that change only while the job is suspended.
pub const CHANGED_WHILE_SUSPENDED: [Rule; 8] = fields!(
    before_admission_or_suspended,
    "changes only while the job is suspended, once it has had its first place: set spec.suspend to true first";
    "queueName",
    "priorityClassName",
    "preemptibility",
    "minRuntimeSeconds",
    "placement",
    "topology",
    "checkpoint",
    "secrets"
);
/// Fields of task groups that change only while the job is suspended.
pub const GROUPS_CHANGED_WHILE_SUSPENDED: [Rule; 12] = fields_of_groups!(
    before_admission_or_suspended,
    "changes only while the job is suspended, once it has had its first place: set spec.suspend to true first";
    ["image"],
    "resources",
    "imagePullPolicy",
    "imagePullSecrets",
    "gpus",
    "gpuResource",
    "flavors",
    "sameFlavorAs",
    "topology",
    "nodeSelector",
    "affinity",
    "tolerations"
);
/// The epoch of a leader never decreases.
pub const EPOCH_NEVER_FALLS: Rule = Rule::new(
    "!has(oldSelf.status) || !has(oldSelf.status.epoch) || (has(self.status) && has(self.status.epoch) && self.status.epoch >= oldSelf.status.epoch)",
    "never falls: the writer no longer leads",
)
.for_field(".status.epoch");

/// [`POD_NAME`].
pub fn pod_name(job: &str, groups: &[TaskGroup]) -> garde::Result {
    let fits = |group: &TaskGroup| {
        let index = group.replicas().saturating_sub(1).to_string();
        job.len()
            .saturating_add(group.name.len())
            .saturating_add(index.len())
            .saturating_add(2)
            <= MAX_LABEL_LENGTH
    };
    POD_NAME.check(groups.iter().all(fits))
}

/// [`BORROW_WITHIN`].
pub fn borrow_within(
    preemption: &QueuePreemption,
) -> impl FnOnce(&Option<BorrowWithinCohort>, &()) -> garde::Result {
    let reclaims =
        preemption.reclaim_within_cohort.unwrap_or_default() != ReclaimWithinCohort::Never;
    move |within, ()| {
        let policy = within.as_ref().and_then(|w| w.policy).unwrap_or_default();
        BORROW_WITHIN.check(reclaims || policy == BorrowWithinCohortPolicy::Never)
    }
}

/// [`FAIR_SHARE`].
pub fn fair_share(
    preemption: &QueuePreemption,
) -> impl FnOnce(&Option<FairShareVictims>, &()) -> garde::Result {
    let within = preemption.borrow_within_cohort.as_ref();
    let borrows = within.and_then(|within| within.policy).unwrap_or_default();
    move |victims, ()| {
        let takes = victims.unwrap_or_default() != FairShareVictims::Never;
        FAIR_SHARE.check(!takes || borrows == BorrowWithinCohortPolicy::Never)
    }
}

/// [`MAX_PRIORITY`].
pub fn max_priority(
    within: &BorrowWithinCohort,
) -> impl FnOnce(&Option<i32>, &()) -> garde::Result {
    let has_victims = within.policy == Some(BorrowWithinCohortPolicy::LowerPriority);
    move |most, ()| MAX_PRIORITY.check(most.is_none() || has_victims)
}

/// [`GROUP_COUNT`].
pub fn group_count(groups: &[TaskGroup], _: &()) -> garde::Result {
    GROUP_COUNT.check((1..=MAX_GROUPS).contains(&groups.len()))
}

/// [`UNIQUE_GROUPS`].
pub fn unique_groups(groups: &[TaskGroup], _: &()) -> garde::Result {
    let names: BTreeSet<_> = groups.iter().map(|g| g.name.as_str()).collect();
    UNIQUE_GROUPS.check(names.len() == groups.len())
}

/// [`POD_TOTAL`].
pub fn pod_total(groups: &[TaskGroup], _: &()) -> garde::Result {
    let total = groups
        .iter()
        .fold(0_i64, |sum, g| sum.saturating_add(g.replicas.unwrap_or(1)));
    POD_TOTAL.check(total <= i64::from(MAX_PODS))
}

/// [`BACKOFF`].
pub fn backoff(restart: &Restart) -> impl FnOnce(&Option<i64>, &()) -> garde::Result {
    let ok = restart.backoff_seconds() <= restart.max_backoff_seconds();
    move |_, ()| BACKOFF.check(ok)
}

/// [`QUOTA_COVERS`].
pub fn quota_covers(group: &ResourceGroup) -> impl FnOnce(&Vec<String>, &()) -> garde::Result {
    let resources: BTreeSet<_> = group.covered_resources.iter().collect();
    let ok = group.flavors.iter().all(|f| {
        let quotas: BTreeSet<_> = f.resources.iter().map(|q| &q.name).collect();
        f.resources.len() == group.covered_resources.len() && quotas == resources
    });
    move |_, ()| QUOTA_COVERS.check(ok)
}

/// [`UNIQUE_FLAVORS`].
pub fn unique_flavors(flavors: &[FlavorQuotas], _: &()) -> garde::Result {
    let names: BTreeSet<_> = flavors.iter().map(|flavor| &flavor.name).collect();
    UNIQUE_FLAVORS.check(names.len() == flavors.len())
}

/// [`UNIQUE_QUOTA_RESOURCES`].
pub fn unique_quota_resources(groups: &[ResourceGroup], _: &()) -> garde::Result {
    let mut seen = BTreeSet::new();
    UNIQUE_QUOTA_RESOURCES.check(
        groups
            .iter()
            .flat_map(|g| &g.covered_resources)
            .all(|r| seen.insert(r)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray;

    /// Each field of a task group has exactly one of the two kinds of change rules. Without one it
    /// could be changed while the job runs; with both the API server would refuse it twice.
    #[test]
    fn task_group_field_has_exactly_one_change_rule() {
        let crds = crds::all();
        let job = crds.iter().find(|c| c.spec.names.kind == "TrainingJob");
        let schema = job.unwrap().spec.versions[0].schema.as_ref().unwrap();
        let property = |schema: &_, name: &str| {
            let schema: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps = schema;
            schema.properties.as_ref().unwrap()[name].clone()
        };
        let root = schema.open_api_v3_schema.as_ref().unwrap();
        let groups = property(&property(root, "spec"), "taskGroups");
        let Some(JSONSchemaPropsOrArray::Schema(group)) = groups.items else {
            panic!("task groups are a list");
        };
        let required = group.required.clone().unwrap_or_default();
        for field in group.properties.unwrap().keys().filter(|f| *f != "name") {
            let is_of = |rule: &&Rule| {
                let marks = [format!("[g.{field}]"), format!("(g, g.{field})")];
                marks.iter().any(|mark| rule.cel().contains(mark))
            };
            let replicas = [FIXED_REPLICAS];
            let all = FIXED_GROUPS
                .iter()
                .chain(&replicas)
                .chain(&GROUPS_CHANGED_WHILE_SUSPENDED);
            let of_field: Vec<_> = all.filter(is_of).collect();
            assert_eq!(of_field.len(), 1, "{field}");
            // The expression fails if a group lacks a field that the expression assumes to exist.
            let direct = of_field[0].cel().contains(&format!("(g, g.{field})"));
            assert_eq!(direct, required.contains(field), "{field}");
        }
    }
}
