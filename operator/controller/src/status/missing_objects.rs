//! Finds the objects without which the pods of a job cannot start.

use trellis_api::Reason;
use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_policies::AuthorizedJob;

use crate::Controller;
use crate::build::cache::JobBuild;
use crate::job_context::JobContext;
use crate::references::external_secrets;

impl Controller {
    /// Returns why the job waits for the first missing object that its pods need.
    pub(super) async fn find_missing_reference(
        &self,
        key: &Key,
        build: Option<&JobBuild>,
    ) -> Option<JobHold> {
        let (commands, namespace) = (&self.commands, &key.namespace);
        let missing = self
            .references
            .find_missing(commands, namespace, &build?.references);
        missing.await
    }

    /// Returns why the job waits for a volume or a Secret. None if all are ready.
    pub(super) fn find_missing_volume_or_secret(
        &self,
        key: &Key,
        job_context: &JobContext,
        job: &AuthorizedJob,
    ) -> Option<JobHold> {
        let volumes = job_context.volumes.as_ref().err();
        // During a commit, the committer binds the claims and reports failures.
        let is_bound_by_commit =
            |hold: &&JobHold| hold.reason == Reason::ClaimNotBound && job_context.is_committing();
        let volumes = volumes.filter(|v| !is_bound_by_commit(v)).cloned();
        // The Secrets existed when the job was planned. The refresh of a Secret must not roll the
        // plan back.
        let secrets =
            || external_secrets::find_missing_secret(&self.context.cache, key, job.compiled());
        volumes.or_else(|| (!job_context.is_planned()).then(secrets).flatten())
    }
}
