//! Who submits jobs, as the command line says it: in kubectl's words, for every command that
//! has policies decide.

use clap::builder::NonEmptyStringValueParser;
use trellis_api::TrainingJob;
use trellis_policies::cedar::Requester;

/// Who submits the jobs.
#[derive(clap::Args, Debug)]
pub(super) struct RequesterOptions {
    /// User who submits the jobs. The user need not be there, and nothing is read with
    /// another's rights.
    #[arg(long = "as", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// Group of that user; several are fine.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

impl RequesterOptions {
    /// Whom the user names. None: nobody.
    pub(super) fn requester(&self) -> Option<Requester> {
        let user = self.user.clone()?;
        Some(Requester {
            user,
            groups: self.groups.iter().cloned().collect(),
        })
    }
}

/// Who has submitted a job of a cluster, as far as the operator knew.
pub(super) fn known_requester(job: &TrainingJob) -> Option<Requester> {
    let policy = job.status.as_ref().and_then(|s| s.policy.as_ref());
    let is_known = policy.is_some_and(|p| p.requester.is_some());
    trellis_cache::policy::stamped_requester(&job.metadata).filter(|_| is_known)
}
