//! A job whose pods are being created.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use trellis_api::Reason;
use trellis_api::job::JobPhase;

use super::{Evaluation, Expired, Next, after};
use crate::{Certificate, made_at};

/// Time after which a gang that is still being committed shows in the status. When many gangs are
/// committed at once, the writes that close their journals wait for the pods of other gangs
/// ([`crate::dispatch::commands::Commands::after_others`]). This is no news for the user.
const COMMIT_SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(20);

impl Evaluation<'_> {
    pub(super) fn committing(mut self) -> Next {
        let wish = self.wish_to_run();
        let plan = self.o.journal.plan.as_ref();
        let started = plan.and_then(made_at).unwrap_or(Timestamp::MIN);
        let shown = started
            .saturating_add(COMMIT_SHOWN_AFTER)
            .unwrap_or(Timestamp::MAX);
        if shown > self.o.now {
            return Next {
                status: None,
                wish,
                again: Some(shown),
                expired: Expired::Nothing,
            };
        }
        self.look_again(after(self.o.now, 5));
        let tried = self.o.certificate;
        let tried = tried.filter(|certificate| certificate.reason == Reason::BackingOff);
        let mut message = "the pods are being created".to_owned();
        if let Some(Certificate { message: why, .. }) = tried {
            message.push_str(&format!("; the last try: {why}"));
        }
        self.say(JobPhase::Starting, Reason::Committing, message, wish)
    }
}
