//! Judges a QuotaPolicy: whether its limits take effect, with the messages of its status.

use trellis_api::{QuotaPolicy, Reason};
use trellis_controller::quotas::takes_no_effect;
use trellis_policies::quota::{QuotaPolicies, Unusable};

use super::answer::Answer;
use super::judge::{self, Judged};
use super::review::Request;

pub(super) fn judge(request: Request) -> Judged {
    let fault = match judge::object::<QuotaPolicy>(request) {
        Ok(policy) => {
            let read = QuotaPolicies::load([&policy], []);
            read.unusable().first().map(|(_, why)| why.clone())
        }
        Err(error) => Some(Unusable::Unreadable(error.to_string())),
    };
    Judged::of_itself(match fault {
        Some(why) => Answer::refused(Reason::InvalidSpec, &takes_no_effect(&why.to_string())),
        None => Answer::allowed(Vec::new()),
    })
}
