//! Every block of commands in README, CONTRIBUTING and docs has a test that runs it, or a reason
//! why none does. A block that comes or goes has to be thought about here.

use std::collections::BTreeMap;

use super::{blocks, documents, root};

/// The test that runs a block, if any.
#[derive(Debug, Clone, Copy)]
enum Run {
    /// A test: file and function.
    By(&'static str, &'static str),
    /// No test runs it as it is: the reason.
    Not(&'static str),
}
use Run::{By, Not};

/// Output of an example cluster. Unit tests and snapshots of the command check its wording.
const EXAMPLE: Run = Not("output of an example cluster; the command's own tests run it on theirs");
/// Commands for a cluster that runs the chart's Deployment.
const DEPLOYED: Run = Not("needs the operator in pods of a Deployment");
/// Commands for an installed release.
const RELEASE: Run = Not("needs a release of an image that its nodes can pull");
/// Changes to the reader's own nodes, queues or other objects.
const THEIRS: Run = Not("plain kubectl on the reader's own objects");
const OTHER: Run = Not("needs the other system on the cluster");
const TRACE: Run = Not("needs traces that are not in the repository");

const IMAGE: Run = Not("pushes to a registry; .ci/image builds it for the tests of the chart");
const POLICIES: Run = By(
    "operator/cli/tests/policy/documents.rs",
    "what_is_shown_is_what_is_printed",
);
const QUICK_START: Run = By(
    "e2e/tests/documents/quick_start.rs",
    "the_quick_start_is_as_it_says",
);

/// Blocks marked `sh` or `console`: page, heading, number of blocks below it, and the test that
/// runs them.
#[rustfmt::skip] // A row a line.
const BLOCKS: [(&str, &str, usize, Run); 67] = [
    ("CONTRIBUTING.md", "Another control plane", 2, By("e2e/tests/documents/main.rs", "what_contributing_says_installs_it")),
    ("README.md", "Try it", 3, Not("`cargo demo --once` in .ci/run; what it prints is cut short here")),
    ("README.md", "Real nodes", 1, Not("the demo on real nodes takes root; real_nodes/pytorch.rs trains the same")),
    ("README.md", "Install", 1, By("e2e/tests/chart/install.rs", "by_helm")),
    ("README.md", "Use", 1, Not("builds and installs for the reader")),
    ("docs/benchmarks.md", "Benchmarks", 1, Not("a benchmark is no test")),
    ("docs/benchmarks.md", "How good: the openb workloads", 1, TRACE),
    ("docs/benchmarks.md", "How good: jobs that come and go", 1, TRACE),
    ("docs/benchmarks.md", "How good: whole racks", 1, Not("a benchmark is no test")),
    ("docs/ci-and-python.md", "A pipeline", 2, By("e2e/tests/command_line/ci.rs", "pipeline_of_the_page_ends_as_its_job_does")),
    ("docs/command-line.md", "queue", 1, EXAMPLE),
    ("docs/command-line.md", "nodes", 1, EXAMPLE),
    ("docs/command-line.md", "explain", 1, EXAMPLE),
    ("docs/command-line.md", "status", 1, EXAMPLE),
    ("docs/command-line.md", "logs", 1, EXAMPLE),
    ("docs/command-line.md", "top", 1, EXAMPLE),
    ("docs/command-line.md", "submit", 1, EXAMPLE),
    ("docs/command-line.md", "suspend, resume, cancel", 1, By("e2e/tests/command_line/acts.rs", "a_job_is_suspended_resumed_and_cancelled")),
    ("docs/command-line.md", "completions", 1, By("e2e/tests/command_line/plugin.rs", "kubectl_completes_it")),
    ("docs/elastic.md", "Elastic jobs", 1, EXAMPLE),
    ("docs/endpoint.md", "Through the API server", 1, EXAMPLE),
    ("docs/endpoint.md", "When nobody leads", 1, THEIRS),
    ("docs/endpoint.md", "Directly", 2, DEPLOYED),
    ("docs/gitops.md", "Argo CD", 1, By("e2e/tests/gitops/scene.rs", "start")),
    ("docs/import.md", "trellis import", 1, OTHER),
    ("docs/install.md", "The image", 2, IMAGE),
    ("docs/install.md", "Install", 2, By("e2e/tests/chart/install.rs", "by_helm")),
    ("docs/install.md", "Check that it works", 1, DEPLOYED),
    ("docs/install.md", "Without Helm on the cluster", 1, By("e2e/tests/chart/install.rs", "by_kubectl")),
    ("docs/install.md", "What is installed", 1, THEIRS),
    ("docs/install.md", "Certificates", 1, By("e2e/tests/chart/cert_manager.rs", "forgotten")),
    ("docs/install.md", "Upgrade", 1, RELEASE),
    ("docs/install.md", "Uninstall", 1, RELEASE),
    ("docs/migrating.md", "Step by step", 2, OTHER),
    ("docs/ml-engineers.md", "Watch", 1, EXAMPLE),
    ("docs/nodes.md", "Whose nodes", 1, THEIRS),
    ("docs/on-call.md", "Look here first", 2, DEPLOYED),
    ("docs/on-call.md", "The log", 1, DEPLOYED),
    ("docs/on-call.md", "Rights", 1, THEIRS),
    ("docs/on-call.md", "Stop everything", 3, DEPLOYED),
    ("docs/on-call.md", "A snapshot", 2, DEPLOYED),
    ("docs/operations.md", "Rollback", 1, RELEASE),
    ("docs/operations.md", "Restore", 1, THEIRS),
    ("docs/plain-pods.md", "Why it waits", 1, EXAMPLE),
    ("docs/plan.md", "trellis plan", 2, EXAMPLE),
    ("docs/plan.md", "On files", 1, By("operator/cli/src/plan/snapshot.rs", "the_document_names_what_is_read")),
    ("docs/platform-teams.md", "Nodes", 1, THEIRS),
    ("docs/platform-teams.md", "Policies", 1, THEIRS),
    ("docs/policies.md", "Tools", 1, POLICIES),
    ("docs/policies.md", "Testing", 2, POLICIES),
    ("docs/policies.md", "Trying", 1, POLICIES),
    ("docs/policies.md", "Comparing", 2, POLICIES),
    ("docs/policies/README.md", "Policies that platform teams want", 1, Not("operator/cli/tests/policy/library.rs tests the folder so")),
    ("docs/queues.md", "Queues", 2, THEIRS),
    ("docs/queues.md", "Lending and borrowing", 1, EXAMPLE),
    ("docs/quick-start.md", "1. A cluster", 1, QUICK_START),
    ("docs/quick-start.md", "2. Install", 1, QUICK_START),
    ("docs/quick-start.md", "3. A job that runs", 1, QUICK_START),
    ("docs/quick-start.md", "5. A job that waits", 2, QUICK_START),
    ("docs/quick-start.md", "6. Suspend and resume", 1, QUICK_START),
    ("docs/quick-start.md", "7. A policy", 1, QUICK_START),
    ("docs/quick-start.md", "8. Away with it", 1, QUICK_START),
    ("docs/simulate.md", "trellis simulate, trellis replay", 1, EXAMPLE),
    ("docs/stages.md", "Stages", 1, EXAMPLE),
    ("docs/traces.md", "Traces", 1, RELEASE),
    ("docs/webhook.md", "The admission webhook", 1, THEIRS),
    ("docs/webhook.md", "Its certificate", 1, RELEASE),
];

/// How many there are, by page and heading.
type Blocks = BTreeMap<(String, String), usize>;

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let mut found = Blocks::new();
    for (path, text) in documents() {
        let page = path.strip_prefix(root()).unwrap().display().to_string();
        for block in blocks::all(&text) {
            if ["sh", "bash", "shell", "console"].contains(&block.language.as_str()) {
                *found.entry((page.clone(), block.heading)).or_default() += 1;
            }
        }
    }
    let known =
        BLOCKS.map(|(page, heading, count, _)| ((page.to_owned(), heading.to_owned()), count));
    let known = BTreeMap::from(known);
    assert_eq!(known.len(), BLOCKS.len(), "a heading stands here twice");
    let other = |a: &Blocks, b: &Blocks| -> Vec<String> {
        let other = a.iter().filter(|(at, count)| b.get(at) != Some(count));
        other.map(|block| format!("{block:?}")).collect()
    };
    let (new, gone) = (other(&found, &known), other(&known, &found));
    assert!(
        new.is_empty() && gone.is_empty(),
        "in docs:\n{}\nhere:\n{}",
        new.join("\n"),
        gone.join("\n")
    );
    for (page, heading, _, run) in BLOCKS {
        match run {
            By(file, function) => {
                let text = std::fs::read_to_string(root().join(file));
                let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
                let is_there = text.contains(&format!("fn {function}("));
                assert!(is_there, "{page}, {heading}: {file} has no {function}");
            }
            Not(why) => assert!(!why.is_empty(), "{page}, {heading}"),
        }
    }
}
