//! The results of tests, for people and for programs.

use serde::Serialize;

/// A completed test.
#[derive(Serialize, Clone, Debug)]
pub(super) struct TestRun {
    pub(super) file: String,
    /// Line of the test in the file.
    pub(super) line: usize,
    /// The policy object, or the file of tests.
    pub(super) of: String,
    pub(super) name: String,
    pub(super) passed: bool,
    /// The difference between the actual and the expected result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// The policies that decided something in the test.
    pub(super) policies: Vec<String>,
}

/// A policy, and whether a test covers it.
#[derive(Serialize, Clone, Debug)]
pub(super) struct PolicyCoverage {
    pub(super) id: String,
    pub(super) file: String,
    /// Line of the policy object in the file.
    pub(super) line: usize,
    pub(super) tested: bool,
}

/// The results of all tests.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestReport {
    pub(super) tests: Vec<TestRun>,
    pub(super) policies: Vec<PolicyCoverage>,
    /// Percentage of policies that decide something in any test.
    pub(super) coverage: usize,
    /// The required percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min_coverage: Option<u8>,
}

impl TestReport {
    pub(super) fn new(tests: Vec<TestRun>, policies: Vec<PolicyCoverage>) -> Self {
        let tested = policies.iter().filter(|p| p.tested).count();
        let all = policies.len();
        Self {
            coverage: tested.saturating_mul(100).checked_div(all).unwrap_or(100),
            tests,
            policies,
            min_coverage: None,
        }
    }

    pub(super) fn with_min_coverage(self, min_coverage: Option<u8>) -> Self {
        Self {
            min_coverage,
            ..self
        }
    }

    /// Returns the policies that decide nothing in any test.
    pub(super) fn untested_policies(&self) -> impl Iterator<Item = &PolicyCoverage> {
        self.policies.iter().filter(|policy| !policy.tested)
    }

    pub(super) fn failed_count(&self) -> usize {
        self.tests.iter().filter(|test| !test.passed).count()
    }

    /// Returns the message if the coverage is too low.
    pub(super) fn coverage_problem(&self) -> Option<String> {
        let min = self
            .min_coverage
            .filter(|min| self.coverage < (*min).into())?;
        Some(format!(
            "tests cover {} % of the policies, and {min} % are required",
            self.coverage
        ))
    }

    pub(super) fn has_passed(&self) -> bool {
        self.failed_count() == 0 && self.coverage_problem().is_none()
    }

    /// Renders the results for people.
    pub(super) fn render(&self) -> String {
        let count = self.tests.len();
        let s = if count == 1 { "" } else { "s" };
        let mut out = format!("running {count} test{s}\n");
        for test in &self.tests {
            let outcome = if test.passed { "ok" } else { "FAILED" };
            out.push_str(&format!("test {}: {} ... {outcome}\n", test.of, test.name));
        }
        if self.failed_count() > 0 {
            out.push_str("\nfailures:\n");
        }
        for test in self.tests.iter().filter(|test| !test.passed) {
            let place = format!("{}:{}", test.file, test.line);
            out.push_str(&format!("\n{place}: {}: {}\n", test.of, test.name));
            let reason = test.failure.as_deref().unwrap_or_default();
            for line in reason.lines() {
                out.push_str(&format!("    {line}\n"));
            }
        }
        if self.untested_policies().next().is_some() {
            out.push_str("\npolicies that decide nothing in any test:\n");
        }
        for policy in self.untested_policies() {
            let PolicyCoverage { id, file, line, .. } = policy;
            out.push_str(&format!("    {id} ({file}:{line})\n"));
        }
        let tested = self
            .policies
            .len()
            .saturating_sub(self.untested_policies().count());
        out.push_str(&format!(
            "\ntest result: {}. {} passed; {} failed; {tested} of {} policies tested ({} %)\n",
            if self.has_passed() { "ok" } else { "FAILED" },
            count.saturating_sub(self.failed_count()),
            self.failed_count(),
            self.policies.len(),
            self.coverage
        ));
        if let Some(reason) = self.coverage_problem() {
            out.push_str(&format!("{reason}\n"));
        }
        out
    }
}
