//! Options for the requester of jobs, with the names that kubectl uses.
//! All commands that evaluate policies share them.

use clap::builder::NonEmptyStringValueParser;
use trellis_api::TrainingJob;
use trellis_policies::cedar::Requester;

/// Options for the requester of the jobs.
#[derive(clap::Args, Debug, Default)]
pub(super) struct RequesterOptions {
    /// User who submits the jobs.
    /// The user need not exist. The command reads the cluster with your own rights, not with the
    /// rights of this user.
    #[arg(long = "as", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// Group of that user. May be given several times.
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

impl RequesterOptions {
    /// Returns the requester of the options. None: the options name none.
    pub(super) fn requester(&self) -> Option<Requester> {
        let user = self.user.clone()?;
        Some(Requester {
            user,
            groups: self.groups.iter().cloned().collect(),
        })
    }
}

/// Returns the requester of a job in a cluster, if the operator knew the requester.
pub(super) fn known_requester(job: &TrainingJob) -> Option<Requester> {
    let policy = job.status.as_ref().and_then(|s| s.policy.as_ref());
    let is_known = policy.is_some_and(|p| p.requester.is_some());
    trellis_cache::policy::stamped_requester(&job.metadata).filter(|_| is_known)
}
