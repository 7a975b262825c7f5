//! The text of policies in Cedar.

use std::sync::LazyLock;

use trellis_api::Enforcement;
use trellis_api::job_policy::{Action, OnViolation, TestRequest};
use trellis_policies::cedar::{
    ObjectKey, PolicyLoader, PolicyObject, PolicyObjectState, PolicyProblem, RequestVerdict, format,
};

use crate::Target;

/// The target. Policies that cannot be read allow nothing, each problem names its rule and its fix,
/// and formatted policies stay the same.
pub const TARGET: Target = Target {
    check,
    words: &[
        "permit",
        "forbid",
        "principal",
        "action",
        "resource",
        "context",
        "when",
        "unless",
        "is",
        "in",
        "has",
        "like",
        "==",
        "&&",
        "||",
        "!",
        "if",
        "then",
        "else",
        "(",
        ")",
        "{",
        "}",
        ";",
        "@id(\"a\")",
        "Action::\"Submit\"",
        "Image",
        "resource.registry",
        ".contains(",
        "ip(\"10.0.0.0/8\")",
        "decimal(\"1.5\")",
        "// comment\n",
        "9223372036854775808",
    ],
    inputs_per_case: 8,
};

static LOADER: LazyLock<PolicyLoader> = LazyLock::new(|| PolicyLoader::new().expect("a schema"));

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    check_format(text);
    let object = PolicyObject {
        key: ObjectKey {
            namespace: None,
            name: "a".to_owned(),
        },
        uid: "u".to_owned(),
        generation: Some(1),
        cedar: text.to_owned(),
        enforcement: Enforcement::Deny,
        on_violation: OnViolation::Report,
        selector: None,
        tests: Vec::new(),
        decode_error: None,
    };
    let examined = LOADER.examine(&object);
    if let Err(problems) = &examined {
        check_problems(problems, text);
    }
    let (policies, results) = LOADER.load(None, vec![object]);
    let [result] = results.as_slice() else {
        panic!("{} results of one object", results.len());
    };
    assert_eq!(result.state == PolicyObjectState::Active, examined.is_ok());
    let request = TestRequest {
        namespace: "team-a".to_owned(),
        namespace_labels: Default::default(),
        action: Action::Submit,
        resource: None,
        context: None,
    };
    let decision = policies
        .decide_test_request(&request)
        .expect("a whole request");
    if examined.is_err() || !decision.errors.is_empty() {
        assert_ne!(decision.verdict, RequestVerdict::Allowed, "an error allows");
    }
    if decision.verdict == RequestVerdict::Allowed {
        assert!(!decision.policies.is_empty(), "a permit allows");
    }
}

fn check_format(text: &str) {
    match format(text) {
        Ok(formatted) => {
            let again = format(&formatted).expect("formatted policies can be formatted");
            assert_eq!(again, formatted, "formatted policies stay the same");
        }
        Err(problems) => check_problems(&problems, text),
    }
}

fn check_problems(problems: &[PolicyProblem], text: &str) {
    assert!(!problems.is_empty(), "a refusal names a problem");
    for problem in problems {
        assert!(
            !problem.message.is_empty() && !problem.fix.is_empty(),
            "{problem:?}"
        );
        if let Some(place) = &problem.position {
            let lines = text.lines().count();
            assert!(
                place.line >= 1 && place.line <= lines.max(1) + 1,
                "{problem:?}"
            );
        }
    }
}
