//! Files of tests, which test several policies together.

use std::collections::BTreeMap;

use garde::Validate;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trellis_api::document::{Document, Problem};
use trellis_api::job_policy::{Action, ExpectedDecision, TestRequest, TestRequester};
use trellis_api::{API_VERSION, kinds};

use crate::files::source_object::SourceObject;
use crate::policy::input_files::ParsedObject;

/// The kind of such a document.
pub(in crate::policy) const KIND: &str = "PolicyTests";

/// Tests of policies.
/// Only `trellis policy test` reads this kind. No cluster has it.
#[derive(Deserialize, Serialize, Validate, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct PolicyTests {
    api_version: String,
    kind: String,
    /// Its name, for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, Value>,
    #[garde(dive)]
    pub(super) spec: PolicyTestsSpec,
}

#[derive(Deserialize, Serialize, Validate, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct PolicyTestsSpec {
    /// The policy objects to evaluate.
    /// The names are `<name>`, or `<namespace>/<name>` for a JobPolicy. Absent: all given objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policies: Option<Vec<String>>,
    #[garde(length(min = 1), dive)]
    pub(super) tests: Vec<PolicyTestCase>,
}

/// One test. It evaluates one request, or all requests of a job.
#[derive(Deserialize, Serialize, Validate, Clone, Debug)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub(super) struct PolicyTestCase {
    /// A description of the test.
    #[garde(length(min = 1, max = 253))]
    pub(super) name: String,
    /// The request, as in the tests of a policy object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub(super) request: Option<TestRequest>,
    /// A whole TrainingJob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<Value>,
    /// For a job: labels of its namespace, in addition to those of a given Namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) namespace_labels: BTreeMap<String, String>,
    /// For a job: the requester. Absent: the requester is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub(super) requester: Option<TestRequester>,
    /// The expected decision.
    pub(super) decision: ExpectedDecision,
    /// Ids of the policies that must make the decision. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policies: Option<Vec<String>>,
    /// For a job: the actions that must be denied. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) denied: Option<Vec<Action>>,
    /// Ids of the Warn and Audit policies that must report a denial.
    /// Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) would_deny: Option<Vec<String>>,
}

/// A file of tests, and its position.
pub(super) struct TestSuite {
    pub(super) spec: PolicyTestsSpec,
    pub(super) source: SourceObject,
    /// The name in the file, else the name of the file.
    pub(super) name: String,
}

impl TestSuite {
    /// Returns the tests of an object. None: the object is of another kind.
    pub(super) fn from_object(piece: &ParsedObject) -> Option<Result<Self, Vec<Problem>>> {
        let source = &piece.source;
        if !source.is_kind(KIND) {
            return None;
        }
        let tests = match source.document.decode_valid::<PolicyTests>() {
            Ok(tests) => tests,
            Err(problems) => return Some(Err(source.to_problems(problems).collect())),
        };
        let name = tests.metadata.get("name").and_then(Value::as_str);
        let input = Self {
            name: name.unwrap_or(&source.file).to_owned(),
            spec: tests.spec,
            source: source.clone(),
        };
        let violations: Vec<_> = input.rule_problems().collect();
        Some(if violations.is_empty() {
            Ok(input)
        } else {
            Err(violations)
        })
    }

    /// Checks rules that involve several fields.
    fn rule_problems(&self) -> impl Iterator<Item = Problem> {
        let cases = self.spec.tests.iter().enumerate();
        let is_repeated =
            |i: usize, name: &str| self.spec.tests.iter().take(i).any(|c| c.name == name);
        cases.filter_map(move |(i, case)| {
            let field = format!("spec.tests[{i}]");
            let at = |field: &str, message: &str| Some(self.source.problem(field, message));
            match (&case.request, &case.job) {
                (None, None) | (Some(_), Some(_)) => {
                    return at(&field, "has neither or both of request and job: give one");
                }
                (Some(_), None) => {
                    let needs_job = !case.namespace_labels.is_empty()
                        || case.requester.is_some()
                        || case.denied.is_some();
                    if needs_job {
                        return at(
                            &field,
                            "namespaceLabels, requester and denied belong to a test with a job: write them in request, or leave them out",
                        );
                    }
                }
                (None, Some(_)) => {}
            }
            if is_repeated(i, &case.name) {
                let field = format!("{field}.name");
                return at(&field, "is also the name of an earlier test: give each test its own name");
            }
            None
        })
    }

    /// Returns the job of a test as an object of its own.
    /// None: the test has no job.
    pub(super) fn job(&self, index: usize) -> Option<Result<Document, Problem>> {
        self.spec.tests.get(index)?.job.as_ref()?;
        let field = format!("spec.tests[{index}].job");
        let version = |kind: &str| (kind == "TrainingJob").then_some(API_VERSION);
        let object = self.source.document.embedded_object(&field, version);
        let object = object.map_err(|problem| problem.with_file(self.source.file.as_str()));
        Some(object.and_then(|job| {
            if kinds::is_job(&job) {
                return Ok(job);
            }
            let message =
                format!("is not a TrainingJob of {API_VERSION}: tests support no other kind");
            Err(self.source.problem(&field, message))
        }))
    }
}
