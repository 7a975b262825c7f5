//! The kinds of objects that users write in files.

use crate::document::{self, Document, Problem};
use crate::{API_VERSION, GROUP};

/// The kinds of Trellis that a file may contain.
pub const KINDS: [&str; 10] = [
    "TrainingJob",
    "TrainingQueue",
    "ResourceFlavor",
    "Topology",
    "RuntimeProfile",
    "PodGroup",
    "ClusterJobPolicy",
    "JobPolicy",
    "QuotaPolicy",
    "QuotaLedger",
];

/// Returns true if the object has a kind and a version of [`KINDS`].
#[must_use]
pub fn is_known(document: &Document) -> bool {
    document.api_version == API_VERSION && KINDS.contains(&document.kind.as_str())
}

/// Returns true if the object is a TrainingJob of the current version.
#[must_use]
pub fn is_job(document: &Document) -> bool {
    document.kind == "TrainingJob" && is_known(document)
}

/// Returns true if the object has the API group of Trellis, in any version.
#[must_use]
pub fn has_our_group(document: &Document) -> bool {
    document.api_version.split('/').next() == Some(GROUP)
}

/// Describes an object with our group or kind that is not one of our kinds.
#[must_use]
pub fn unknown_kind(document: &Document) -> Problem {
    let Document {
        kind, api_version, ..
    } = document;
    if KINDS.contains(&kind.as_str()) {
        let message = format!("there is no {api_version:?} of {kind}: write {API_VERSION}");
        return document.problem("apiVersion", message);
    }
    let known = match document::nearest(kind, &KINDS) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("its kinds are {}", KINDS.join(", ")),
    };
    document.problem("kind", format!("{API_VERSION} has no {kind:?}: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Document {
        document::split(text).unwrap().remove(0)
    }

    #[test]
    fn api_version_is_group_and_version() {
        assert_eq!(API_VERSION, format!("{GROUP}/{}", crate::VERSION));
    }

    #[test]
    fn only_the_current_version_of_a_kind_is_known() {
        let job = read("{apiVersion: trellis.dev/v1alpha1, kind: TrainingJob}");
        assert!(is_job(&job) && is_known(&job));
        let queue = read("{apiVersion: trellis.dev/v1alpha1, kind: TrainingQueue}");
        assert!(!is_job(&queue) && is_known(&queue));
        let early = read("{apiVersion: trellis.dev/v1, kind: TrainingJob}");
        assert!(!is_known(&early) && has_our_group(&early));
        let problem = unknown_kind(&early);
        assert_eq!(problem.field, "apiVersion");
        assert!(problem.message.ends_with("write trellis.dev/v1alpha1"));
    }

    #[test]
    fn kind_with_a_typing_error_gets_the_nearest_one() {
        let wrong = read("{apiVersion: trellis.dev/v1alpha1, kind: TrainingJobs}");
        let message = unknown_kind(&wrong).message;
        assert!(
            message.ends_with("did you mean \"TrainingJob\"?"),
            "{message}"
        );
        let other = read("{apiVersion: trellis.dev/v1alpha1, kind: Deployment}");
        assert!(unknown_kind(&other).message.contains("its kinds are"));
        assert!(!has_our_group(&read("{apiVersion: v1, kind: Pod}")));
    }
}
