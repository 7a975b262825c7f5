//! Reserved names of environment variables: those that Trellis or a framework sets.
//!
//! Each row of one table yields the CRD rule for jobs, the rule for profiles, the messages of both,
//! and the library's checks. Only variables that are really set are reserved: users may, for
//! example, tune Open MPI by `OMPI_MCA_btl`.

use super::Rule;
use crate::job::Framework;

/// Names of the variables that a framework sets.
#[derive(Clone, Copy, Debug)]
pub struct FrameworkEnv {
    /// The frameworks that set them.
    pub frameworks: &'static [Framework],
    /// Prefixes of names.
    pub prefixes: &'static [&'static str],
    /// Complete names.
    pub names: &'static [&'static str],
    /// Rule on a job with one of the frameworks.
    pub job_rule: Rule,
    /// Rule on a profile, whose jobs may have any framework, with the same message.
    pub profile_rule: Rule,
}

macro_rules! row {
    ($whose:literal, [$framework:ident $(, $more:ident)*], [$($prefix:literal),*], [$first:literal $(, $name:literal)*]) => {
        FrameworkEnv {
            frameworks: &[Framework::$framework $(, Framework::$more)*],
            prefixes: &[$($prefix),*],
            names: &[$first $(, $name)*],
            job_rule: Rule::new(
                concat!(
                    "!has(self.framework) || !(self.framework in ['", stringify!($framework), "'",
                    $(", '", stringify!($more), "'",)*
                    "]) || self.taskGroups.all(g, !has(g.env) || g.env.all(e, ",
                    $("!e.name.startsWith('", $prefix, "') && ",)*
                    "!(e.name in ['", $first, "'", $(", '", $name, "'",)* "])))"
                ),
                row!(words $whose, [$($prefix),*], [$first $(, $name)*]),
            ),
            profile_rule: Rule::new(
                concat!(
                    "!has(self.env) || self.env.all(e, ",
                    $("!e.name.startsWith('", $prefix, "') && ",)*
                    "!(e.name in ['", $first, "'", $(", '", $name, "'",)* "]))"
                ),
                row!(words $whose, [$($prefix),*], [$first $(, $name)*]),
            ),
        }
    };
    (words $whose:literal, [$($prefix:literal),*], [$first:literal $(, $name:literal)*]) => {
        concat!(
            $($prefix, "*, ",)* $first, $(", ", $name,)*
            ": this is what Trellis sets for ", $whose, ": remove the variable"
        )
    };
}

/// torchrun's environment, and the variables that it sets for each process.
pub const TORCH_ENV: FrameworkEnv = row!(
    "PyTorch and DeepSpeed",
    [PyTorch, DeepSpeed],
    ["PET_"],
    [
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE"
    ]
);
/// Rendezvous of the JAX processes.
pub const JAX_ENV: FrameworkEnv = row!(
    "JAX",
    [JAX],
    [],
    [
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID"
    ]
);
/// TensorFlow's cluster and task.
pub const TENSORFLOW_ENV: FrameworkEnv = row!("TensorFlow", [TensorFlow], [], ["TF_CONFIG"]);
/// Host files and access to their hosts: for Open MPI up to 4 (ORTE), Open MPI from 5 (PRRTE),
/// Intel MPI and MPICH (Hydra). Also a variable that hides GPUs from a launcher without GPUs.
pub const MPI_ENV: FrameworkEnv = row!(
    "MPI",
    [MPI],
    [],
    [
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_plm_rsh_agent",
        "PRTE_MCA_prte_default_hostfile",
        "PRTE_MCA_plm_ssh_agent",
        "I_MPI_HYDRA_HOST_FILE",
        "I_MPI_HYDRA_BOOTSTRAP",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        "HYDRA_HOST_FILE",
        "HYDRA_LAUNCHER",
        "HYDRA_LAUNCHER_EXEC",
        "NVIDIA_VISIBLE_DEVICES"
    ]
);
/// Rows of all frameworks that set variables.
pub const FRAMEWORK_ENV: [FrameworkEnv; 4] = [TORCH_ENV, JAX_ENV, TENSORFLOW_ENV, MPI_ENV];

/// Variables that Trellis sets for any framework.
pub const RESERVED_ENV: Rule = Rule::new(
    "self.taskGroups.all(g, !has(g.env) || g.env.all(e, !e.name.startsWith('TRELLIS_')))",
    "TRELLIS_* is what Trellis sets: choose another name",
);
/// [`RESERVED_ENV`], for a profile.
pub const RESERVED_PROFILE_ENV: Rule = Rule::new(
    "!has(self.env) || self.env.all(e, !e.name.startsWith('TRELLIS_'))",
    RESERVED_ENV.message(),
);

impl FrameworkEnv {
    fn reserves(&self, name: &str) -> bool {
        self.names.contains(&name) || self.prefixes.iter().any(|p| name.starts_with(p))
    }
}

/// True for a variable that Trellis sets for any framework.
#[must_use]
pub fn is_trellis_env(name: &str) -> bool {
    name.starts_with("TRELLIS_")
}

/// Returns the rule that a job's variable breaks, because Trellis or the framework sets it.
fn violated_rule(name: &str, framework: Framework) -> Option<Rule> {
    if is_trellis_env(name) {
        return Some(RESERVED_ENV);
    }
    let mut rows = FRAMEWORK_ENV.iter();
    rows.find(|row| row.frameworks.contains(&framework) && row.reserves(name))
        .map(|row| row.job_rule)
}

/// True for a variable that Trellis or the framework sets.
#[must_use]
pub fn is_reserved_env(name: &str, framework: Framework) -> bool {
    violated_rule(name, framework).is_some()
}

/// [`RESERVED_ENV`] and the framework's row, for one variable of a job.
pub fn reserved_env(name: &str, framework: Framework) -> garde::Result {
    match violated_rule(name, framework) {
        None => Ok(()),
        Some(rule) => rule.check(false),
    }
}

/// [`RESERVED_PROFILE_ENV`] and every framework's row, for one variable of a profile.
pub fn reserved_profile_env(name: &str) -> garde::Result {
    RESERVED_PROFILE_ENV.check(!is_trellis_env(name))?;
    FRAMEWORK_ENV
        .iter()
        .try_for_each(|row| row.profile_rule.check(!row.reserves(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_reserved_for_its_framework_and_in_profiles() {
        for row in &FRAMEWORK_ENV {
            let prefixed = row.prefixes.iter().map(|p| format!("{p}ANY"));
            let names = row.names.iter().map(|n| (*n).to_owned()).chain(prefixed);
            for name in names {
                for framework in Framework::ALL {
                    let is_theirs = row.frameworks.contains(&framework);
                    assert_eq!(is_reserved_env(&name, framework), is_theirs, "{name}");
                }
                let of_profile = reserved_profile_env(&name).unwrap_err();
                assert_eq!(of_profile.message(), row.job_rule.message());
            }
            assert_eq!(row.job_rule.message(), row.profile_rule.message());
        }
        for name in [
            "OMPI_MCA_btl",
            "I_MPI_FABRICS",
            "JAX_PLATFORMS",
            "NCCL_DEBUG",
        ] {
            let sets = |framework| is_reserved_env(name, framework);
            assert!(!Framework::ALL.into_iter().any(sets));
            assert!(reserved_profile_env(name).is_ok());
        }
        assert!(is_reserved_env("TRELLIS_RANK", Framework::None));
    }
}
