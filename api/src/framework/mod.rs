//! The frameworks: one file for each, with the rules that it adds to a job.
//!
//! To add a framework, add a variant to [`Framework`], with its row in [`Framework::ALL`] and
//! [`Framework::spec`], a file with its [`FrameworkSpec`] here, and a file with its environment in
//! the compiler (`compiler/src/framework`).

#[macro_use]
mod reserved_env;
#[macro_use]
mod rule_macros;

mod deepspeed;
pub mod jax;
pub mod mpi;
mod none;
pub mod pytorch;
pub mod ray;
pub mod tensorflow;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::{Role, TaskGroup};
use crate::rules::Rule;

pub use reserved_env::ReservedEnv;

/// Framework whose environment the pods get, so that they find each other (docs/frameworks).
/// PyTorch: torchrun's variables and a rendezvous address; DeepSpeed: the same, and a hostfile;
/// JAX: the coordinator's address and the number of each process; MPI: host files, an SSH key for
/// the job and an sshd in each worker; TensorFlow: TF_CONFIG; Ray: a Ray cluster of the job's own,
/// with the driver in its head; None: only Trellis' own variables. Absent: None.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framework {
    /// torchrun's `PET_*` variables and a rendezvous address.
    PyTorch,
    /// torchrun's variables, a rendezvous address and a hostfile.
    DeepSpeed,
    /// The coordinator's address, the number of processes and the number of each process.
    JAX,
    /// Host files, an SSH key for the job, and an sshd in each worker.
    MPI,
    /// `TF_CONFIG`.
    TensorFlow,
    /// A Ray cluster: a head, which runs the driver, and workers.
    Ray,
    /// Only Trellis' own variables.
    #[default]
    None,
}

/// The properties of a framework, and its rules on jobs.
#[derive(Debug)]
pub struct FrameworkSpec {
    /// Name, as in `spec.framework`.
    pub name: &'static str,
    /// The group that leads the job. A stage without it has framework None.
    pub leader: Option<Leader>,
    /// True if the number of processes may change while they run.
    pub is_elastic: bool,
    /// True if running pods know how many they may become: more replicas need a restart.
    pub fixes_max_replicas: bool,
    /// Port on which the pods of the framework find each other.
    pub port: Option<i32>,
    /// Variables that Trellis sets.
    pub env: Option<&'static ReservedEnv>,
    /// Rules on the task groups. A job reports the first that it breaks.
    pub rules: &'static [GroupRule],
}

/// The one group of one pod that a job of the framework needs. The other pods do not end by
/// themselves: the job is complete once the pod of rank 0, the leader's, has succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Leader {
    /// Role of the group.
    pub role: Role,
    /// True if the leader has a Service of its own.
    pub has_service: bool,
}

/// A rule on the task groups of a job, in the two forms in which it is checked.
#[derive(Clone, Copy, Debug)]
pub struct GroupRule {
    /// The rule in the CRD, with its message.
    pub rule: Rule,
    /// The same rule in the library. True: the groups obey it.
    pub holds: fn(&[TaskGroup]) -> bool,
}

impl Framework {
    /// All frameworks.
    pub const ALL: [Self; 7] = [
        Self::PyTorch,
        Self::DeepSpeed,
        Self::JAX,
        Self::MPI,
        Self::TensorFlow,
        Self::Ray,
        Self::None,
    ];

    /// The row of the framework.
    #[must_use]
    pub const fn spec(self) -> &'static FrameworkSpec {
        match self {
            Self::PyTorch => &pytorch::SPEC,
            Self::DeepSpeed => &deepspeed::SPEC,
            Self::JAX => &jax::SPEC,
            Self::MPI => &mpi::SPEC,
            Self::TensorFlow => &tensorflow::SPEC,
            Self::Ray => &ray::SPEC,
            Self::None => &none::SPEC,
        }
    }
}

/// The reserved variables of all frameworks. Frameworks that set the same variables share one
/// entry.
pub(crate) fn all_reserved_env() -> impl Iterator<Item = &'static ReservedEnv> {
    let mut rules = BTreeSet::new();
    let all = Framework::ALL.into_iter().filter_map(|f| f.spec().env);
    all.filter(move |env| rules.insert(env.job_rule.cel()))
}

/// All rules of frameworks on the spec of a job.
pub(crate) fn job_rules() -> impl Iterator<Item = Rule> {
    let of_groups = Framework::ALL.into_iter().flat_map(|f| f.spec().rules);
    let of_env = all_reserved_env().map(|env| env.job_rule);
    of_groups.map(|rule| rule.rule).chain(of_env)
}

/// All rules of frameworks on the spec of a profile, whose jobs may have any framework.
pub(crate) fn profile_rules() -> impl Iterator<Item = Rule> {
    all_reserved_env().map(|env| env.profile_rule)
}

/// The framework's rules on the task groups.
pub(crate) fn check_groups(
    framework: Framework,
) -> impl FnOnce(&Vec<TaskGroup>, &()) -> garde::Result {
    move |groups, ()| {
        let mut rules = framework.spec().rules.iter();
        rules.try_for_each(|rule| rule.rule.check((rule.holds)(groups)))
    }
}

/// Number of pods of all groups.
fn total_replicas(groups: &[TaskGroup]) -> i64 {
    let replicas = groups.iter().map(|group| group.replicas.unwrap_or(1));
    replicas.fold(0, i64::saturating_add)
}

fn groups_of_role(groups: &[TaskGroup], role: Role) -> impl Iterator<Item = &TaskGroup> {
    groups.iter().filter(move |group| group.role() == role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_all_frameworks_is_the_enum_of_the_schema() {
        let schema = serde_json::to_value(schemars::schema_for!(Framework)).unwrap();
        let values = schema["oneOf"].as_array().unwrap();
        let values: Vec<_> = values.iter().map(|value| &value["const"]).collect();
        assert_eq!(
            values,
            Framework::ALL.map(|framework| framework.spec().name)
        );
    }

    #[test]
    fn name_of_a_framework_is_its_value_in_the_spec() {
        for framework in Framework::ALL {
            let value = serde_json::to_value(framework).unwrap();
            assert_eq!(value, framework.spec().name);
        }
    }

    #[test]
    fn rules_of_a_framework_name_it() {
        for framework in Framework::ALL {
            let spec = framework.spec();
            for rule in spec.rules {
                let cel = format!("self.framework != '{}'", spec.name);
                assert!(rule.rule.cel().contains(&cel), "{:?}", rule.rule);
            }
        }
    }
}
