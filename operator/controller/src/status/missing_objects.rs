//! Finds the objects without which the pods of a job cannot start.

use trellis_api::Reason;
use trellis_gang::JobHold;
use trellis_gang::key::Key;
use trellis_policies::AuthorizedJob;

use crate::build_cache::JobBuild;
use crate::job_context::JobContext;
use crate::{Controller, secrets};

impl Controller {
    /// The first missing object without which the pods cannot start.
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

    /// Why the job waits for a volume or a Secret. None: all of them are ready.
    pub(super) fn find_missing_volume_or_secret(
        &self,
        key: &Key,
        seen: &JobContext,
        job: &AuthorizedJob,
    ) -> Option<JobHold> {
        let volumes = seen.volumes.as_ref().err();
        // While pods are being committed, the committer binds the claims and reports failures.
        let bound_meanwhile =
            |held: &&JobHold| held.reason == Reason::ClaimNotBound && seen.is_committing();
        let volumes = volumes.filter(|v| !bound_meanwhile(v)).cloned();
        // The Secrets existed when the job was planned. A later refresh of one must not roll it
        // back.
        let secrets = || secrets::find_missing_secret(&self.context.cache, key, job.compiled());
        volumes.or_else(|| (!seen.is_planned()).then(secrets).flatten())
    }
}
