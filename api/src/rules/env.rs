//! Reserved names of environment variables: those that Trellis or a framework sets.

use super::rule::Rule;
use crate::framework::{self, Framework};

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
    let of_framework = framework.spec().env.filter(|env| env.reserves(name));
    of_framework.map(|env| env.job_rule)
}

/// True for a variable that Trellis or the framework sets.
#[must_use]
pub fn is_reserved_env(name: &str, framework: Framework) -> bool {
    violated_rule(name, framework).is_some()
}

/// [`RESERVED_ENV`] and the framework's rule, for one variable of a job.
pub fn reserved_env(name: &str, framework: Framework) -> garde::Result {
    match violated_rule(name, framework) {
        None => Ok(()),
        Some(rule) => rule.check(false),
    }
}

/// [`RESERVED_PROFILE_ENV`] and every framework's rule, for one variable of a profile.
pub fn reserved_profile_env(name: &str) -> garde::Result {
    RESERVED_PROFILE_ENV.check(!is_trellis_env(name))?;
    framework::all_reserved_env().try_for_each(|env| env.profile_rule.check(!env.reserves(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_reserved_for_its_framework_and_in_profiles() {
        for env in framework::all_reserved_env() {
            let prefixed = env.prefixes.iter().map(|p| format!("{p}ANY"));
            let names = env.names.iter().map(|n| (*n).to_owned()).chain(prefixed);
            for name in names {
                for framework in Framework::ALL {
                    let row = framework.spec();
                    let is_theirs = row.env.is_some_and(|own| own.names == env.names);
                    assert_eq!(is_reserved_env(&name, framework), is_theirs, "{name}");
                    let in_rule = format!("'{}'", row.name);
                    assert_eq!(env.job_rule.cel().contains(&in_rule), is_theirs, "{name}");
                }
                let of_profile = reserved_profile_env(&name).unwrap_err();
                assert_eq!(of_profile.message(), env.job_rule.message());
            }
            assert_eq!(env.job_rule.message(), env.profile_rule.message());
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
