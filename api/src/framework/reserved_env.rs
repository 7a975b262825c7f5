//! Names of the variables that a framework sets, and the rules that reserve them.
//!
//! Only variables that are really set are reserved: users may, for example, tune Open MPI by
//! `OMPI_MCA_btl`.

use crate::rules::Rule;

/// Names of the variables that a framework sets.
#[derive(Clone, Copy, Debug)]
pub struct ReservedEnv {
    /// Prefixes of names.
    pub prefixes: &'static [&'static str],
    /// Complete names.
    pub names: &'static [&'static str],
    /// Rule on a job with one of the frameworks.
    pub job_rule: Rule,
    /// Rule on a profile, whose jobs may have any framework, with the same message.
    pub profile_rule: Rule,
}

impl ReservedEnv {
    /// True for a variable of such a name.
    #[must_use]
    pub fn reserves(&self, name: &str) -> bool {
        self.names.contains(&name) || self.prefixes.iter().any(|p| name.starts_with(p))
    }
}

/// A [`ReservedEnv`]: the frameworks as the message names them, their names in the spec, prefixes
/// and names of variables.
macro_rules! reserved_env {
    ($whose:literal, [$framework:literal $(, $more:literal)*], [$($prefix:literal),*], [$first:literal $(, $name:literal)*]) => {
        $crate::framework::ReservedEnv {
            prefixes: &[$($prefix),*],
            names: &[$first $(, $name)*],
            job_rule: $crate::rules::Rule::new(
                concat!(
                    "!has(self.framework) || !(self.framework in ['", $framework, "'",
                    $(", '", $more, "'",)*
                    "]) || self.taskGroups.all(g, !has(g.env) || g.env.all(e, ",
                    $("!e.name.startsWith('", $prefix, "') && ",)*
                    "!(e.name in ['", $first, "'", $(", '", $name, "'",)* "])))"
                ),
                reserved_env!(message $whose, [$($prefix),*], [$first $(, $name)*]),
            ),
            profile_rule: $crate::rules::Rule::new(
                concat!(
                    "!has(self.env) || self.env.all(e, ",
                    $("!e.name.startsWith('", $prefix, "') && ",)*
                    "!(e.name in ['", $first, "'", $(", '", $name, "'",)* "]))"
                ),
                reserved_env!(message $whose, [$($prefix),*], [$first $(, $name)*]),
            ),
        }
    };
    (message $whose:literal, [$($prefix:literal),*], [$first:literal $(, $name:literal)*]) => {
        concat!(
            $($prefix, "*, ",)* $first, $(", ", $name,)*
            ": this is what Trellis sets for ", $whose, ": remove the variable"
        )
    };
}
