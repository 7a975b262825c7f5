//! Judges a RuntimeProfile: whether jobs can be compiled with it, with the messages of its status.

use std::collections::BTreeSet;

use trellis_api::{Reason, RuntimeProfile};
use trellis_controller::does_not_decode;
use trellis_gang::lookup::{KnownProfile, several_defaults};

use super::answer::Answer;
use super::judge::{self, Judge, Judged};
use super::review::Request;

pub(super) fn judge(by: &Judge, request: Request) -> Judged {
    let object: RuntimeProfile = match judge::object(request) {
        Ok(object) => object,
        Err(error) => {
            let message = does_not_decode(&error);
            return Judged::of_itself(Answer::refused(Reason::InvalidSpec, &message));
        }
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let known = KnownProfile::from(object);
    Judged::of_itself(match &known.profile {
        Err(wrong) => Answer::refused(Reason::InvalidSpec, wrong),
        Ok(_) => Answer::allowed(another_default(by, &name, &known)),
    })
}

/// Warns of a second default profile, because jobs without a profile would wait. It is only a
/// warning, because moving the default takes two writes.
fn another_default(by: &Judge, name: &str, known: &KnownProfile) -> Option<String> {
    let all = by.context.cache.profiles.defaults();
    let mut names: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    names.insert(name);
    let names: Vec<&str> = names.into_iter().collect();
    (known.is_default && names.len() > 1).then(|| {
        let reason = Reason::ProfileMisconfigured;
        format!("{reason}: {}", several_defaults(&names))
    })
}
