//! AdmissionReviews, as the API server sends them to the webhook.

use serde_json::Value;
use trellis_server::fixtures::{answer_review, answer_stamp};

use crate::Target;

/// The target. A review gets an answer with its uid, a refusal has a message, and a body that is no
/// review gets an error with a reason. The requester stamp never refuses a request.
pub const TARGET: Target = Target {
    check,
    words: &[
        "apiVersion",
        "admission.k8s.io/v1",
        "kind",
        "AdmissionReview",
        "request",
        "uid",
        "namespace",
        "operation",
        "CREATE",
        "UPDATE",
        "DELETE",
        "CONNECT",
        "object",
        "oldObject",
        "subResource",
        "userInfo",
        "username",
        "groups",
        "annotations",
        "trellis.dev/requested-by",
        "TrainingJob",
        "QuotaPolicy",
        "ClusterJobPolicy",
        "JobPolicy",
        "RuntimeProfile",
        "spec",
        "metadata",
        "deletionTimestamp",
        "taskGroups",
        "cedar",
        "limits",
    ],
    inputs_per_case: 64,
};

fn check(input: &[u8]) {
    let answer = match answer_review(input) {
        Ok(answer) => answer,
        Err(error) => {
            assert!(
                error.starts_with("the body is no AdmissionReview"),
                "{error}"
            );
            return;
        }
    };
    // The parser skips fields that it does not read, and their text.
    let text = String::from_utf8_lossy(input);
    let Ok(request) = serde_json::from_str::<Value>(&text) else {
        return;
    };
    let stamped = answer_stamp(input).expect("the body is a review");
    assert_eq!(stamped["response"]["uid"], request["request"]["uid"]);
    assert_eq!(stamped["response"]["allowed"], true);
    let response = &answer["response"];
    assert_eq!(response["uid"], request["request"]["uid"]);
    let is_allowed = response["allowed"].as_bool().expect("an answer decides");
    let message = response["status"]["message"].as_str().unwrap_or_default();
    assert!(
        is_allowed || !message.is_empty(),
        "a refusal has a message: {answer}"
    );
    let warnings = response["warnings"].as_array().into_iter().flatten();
    for warning in warnings {
        let warning = warning.as_str().expect("a warning is text");
        assert!(
            !warning.is_empty() && warning.chars().count() <= 256,
            "{warning}"
        );
    }
}
