//! Finds tests that refer to unknown policies.

use trellis_api::document::{self, Problem};
use trellis_api::job_policy::PolicyTest;
use trellis_policies::cedar::Examination;

use super::test_file::TestSuite;
use crate::policy::policy_objects::PolicySource;

/// Reports tests that refer to an unknown policy or object.
pub(super) fn unknown_name_problems(
    written: &[PolicySource],
    examined: &[Examination],
    suites: &[TestSuite],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let unknown = |name: &str, what: &str, known: &[&str]| {
        let hint = match document::nearest(name, known) {
            Some(hint) => format!("did you mean {hint:?}?"),
            None => format!("name one of {}", known.join(", ")),
        };
        format!("there is no {what} {name:?}: {hint}")
    };
    for (written, examined) in written.iter().zip(examined) {
        let known: Vec<&str> = examined.policy_ids.iter().map(String::as_str).collect();
        for (i, test) in written.object.tests.iter().enumerate() {
            let PolicyTest { policies, .. } = test;
            for (j, id) in policies.iter().flatten().enumerate() {
                if !known.contains(&id.as_str()) {
                    let field = format!("spec.tests[{i}].policies[{j}]");
                    let message = unknown(id, "policy", &known);
                    problems.push(written.source.source.problem(&field, message));
                }
            }
        }
    }
    let keys: Vec<String> = written.iter().map(|w| w.object.key.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for suite in suites {
        let requested = suite.spec.policies.as_ref();
        for (i, name) in requested.into_iter().flatten().enumerate() {
            if !keys.contains(&name.as_str()) {
                let field = format!("spec.policies[{i}]");
                let message = unknown(name, "policy object", &keys);
                problems.push(suite.source.problem(&field, message));
            }
        }
        let selected = keys.iter().zip(examined);
        let selected = selected
            .filter(|(key, _)| requested.is_none_or(|names| names.iter().any(|name| name == *key)));
        let known: Vec<&str> = selected
            .flat_map(|(_, e)| e.policy_ids.iter().map(String::as_str))
            .collect();
        for (i, case) in suite.spec.tests.iter().enumerate() {
            for (list, ids) in [
                ("policies", &case.policies),
                ("wouldDeny", &case.would_deny),
            ] {
                for (j, id) in ids.iter().flatten().enumerate() {
                    if !known.contains(&id.as_str()) {
                        let field = format!("spec.tests[{i}].{list}[{j}]");
                        let message = unknown(id, "policy", &known);
                        problems.push(suite.source.problem(&field, message));
                    }
                }
            }
        }
    }
    problems
}
