//! Every block of commands in README, CONTRIBUTING and docs has a test that runs it, or a reason
//! why no test does. A new or removed block needs a change here.

use std::collections::BTreeMap;

use super::{blocks, document_files, repository_root};

/// The test that runs a block, if any.
#[derive(Debug, Clone, Copy)]
enum BlockRunner {
    /// A test: file and function.
    TestedBy(&'static str, &'static str),
    /// No test runs the block, for this reason.
    NotRun(&'static str),
}
use BlockRunner::{NotRun, TestedBy};

/// Output of an example cluster. Unit tests and snapshots of the command check its wording.
const EXAMPLE_OUTPUT: BlockRunner =
    NotRun("output of an example cluster; the command's own tests run it on theirs");
/// Commands for a cluster that runs the chart's Deployment.
const NEEDS_DEPLOYMENT: BlockRunner = NotRun("needs the operator in pods of a Deployment");
/// Commands for an installed release.
const NEEDS_RELEASE: BlockRunner = NotRun("needs a release of an image that its nodes can pull");
/// Changes to the reader's own nodes, queues or other objects.
const READERS_OBJECTS: BlockRunner = NotRun("plain kubectl on the reader's own objects");
const NEEDS_OTHER_SYSTEM: BlockRunner = NotRun("needs the other system on the cluster");
const NEEDS_TRACES: BlockRunner = NotRun("needs traces that are not in the repository");
const AUTOSCALING_DEMO: BlockRunner =
    NotRun("`cargo demo --autoscale --once` in .ci/run; its output is shortened here");

const NEEDS_REGISTRY: BlockRunner =
    NotRun("pushes to a registry; .ci/image builds it for the tests of the chart");
const POLICY_TESTS: BlockRunner = TestedBy(
    "operator/cli/tests/policy/documents.rs",
    "output_in_the_document_matches_the_commands",
);
const QUICK_START_TEST: BlockRunner = TestedBy(
    "e2e/tests/documents/quick_start.rs",
    "quick_start_commands_print_the_output_of_the_page",
);

/// Blocks marked `sh` or `console`: page, heading, number of blocks below it, and the test that
/// runs them.
#[rustfmt::skip] // A row a line.
const BLOCKS: [(&str, &str, usize, BlockRunner); 77] = [
    ("CONTRIBUTING.md", "The web page", 1, NotRun("`.ci/generated check` and the step of the web page in .ci/run")),
    ("CONTRIBUTING.md", "Another control plane", 2, TestedBy("e2e/tests/documents/main.rs", "contributing_commands_install_trellis")),
    ("README.md", "Try it", 3, NotRun("`cargo demo --once` in .ci/run; what it prints is cut short here")),
    ("README.md", "New nodes", 1, AUTOSCALING_DEMO),
    ("README.md", "Real nodes", 1, NotRun("the demo on real nodes takes root; real_nodes/pytorch.rs trains the same")),
    ("README.md", "Install", 1, TestedBy("e2e/tests/chart/install.rs", "test_install_by_helm")),
    ("README.md", "Use", 1, NotRun("builds and installs for the reader")),
    ("docs/autoscaling.md", "Try it", 1, AUTOSCALING_DEMO),
    ("docs/autoscaling.md", "Check the autoscaler", 1, EXAMPLE_OUTPUT),
    ("docs/benchmarks.md", "Benchmarks", 1, NotRun("a benchmark is no test")),
    ("docs/benchmarks.md", "Packing: openb", 1, NEEDS_TRACES),
    ("docs/benchmarks.md", "Backfill: Helios", 1, NEEDS_TRACES),
    ("docs/benchmarks.md", "Topology: whole racks", 1, NotRun("a benchmark is no test")),
    ("docs/benchmarks.md", "Growth: an autoscaled pool", 1, NotRun("a benchmark is no test")),
    ("docs/ci-and-python.md", "A pipeline", 2, TestedBy("e2e/tests/command_line/ci_page.rs", "pipeline_of_docs_succeeds_with_its_job")),
    ("docs/command-line.md", "queue", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "history", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "nodes", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "explain", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "status", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "logs", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "top", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "submit", 1, EXAMPLE_OUTPUT),
    ("docs/command-line.md", "suspend, resume, cancel", 1, TestedBy("e2e/tests/command_line/write_commands.rs", "a_job_is_suspended_resumed_and_cancelled")),
    ("docs/command-line.md", "completions", 1, TestedBy("e2e/tests/command_line/plugin.rs", "kubectl_completes_plugin_arguments")),
    ("docs/dashboard.md", "Open it", 1, NotRun("the browser tests start it for each test; it prints a link that works once")),
    ("docs/elastic.md", "Elastic jobs", 1, EXAMPLE_OUTPUT),
    ("docs/endpoint.md", "Through the API server", 1, EXAMPLE_OUTPUT),
    ("docs/endpoint.md", "Without a leader", 1, READERS_OBJECTS),
    ("docs/endpoint.md", "Directly", 2, NEEDS_DEPLOYMENT),
    ("docs/gitops.md", "Argo CD", 1, TestedBy("e2e/tests/gitops/fixtures.rs", "start")),
    ("docs/import.md", "trellis import", 1, NEEDS_OTHER_SYSTEM),
    ("docs/install.md", "The image", 2, NEEDS_REGISTRY),
    ("docs/install.md", "Install", 2, TestedBy("e2e/tests/chart/install.rs", "test_install_by_helm")),
    ("docs/install.md", "Check that it works", 1, NEEDS_DEPLOYMENT),
    ("docs/install.md", "Without Helm on the cluster", 1, TestedBy("e2e/tests/chart/install.rs", "test_install_by_kubectl")),
    ("docs/install.md", "Installed objects", 1, READERS_OBJECTS),
    ("docs/install.md", "Certificates", 1, TestedBy("e2e/tests/chart/certificates/cert_manager.rs", "remove_old_authorities")),
    ("docs/install.md", "Upgrade", 1, NEEDS_RELEASE),
    ("docs/install.md", "Uninstall", 1, NEEDS_RELEASE),
    ("docs/migrating.md", "Step by step", 2, NEEDS_OTHER_SYSTEM),
    ("docs/ml-engineers.md", "Watch", 1, EXAMPLE_OUTPUT),
    ("docs/nodes.md", "Dedicated nodes", 1, READERS_OBJECTS),
    ("docs/on-call.md", "Look here first", 2, NEEDS_DEPLOYMENT),
    ("docs/on-call.md", "The log", 1, NEEDS_DEPLOYMENT),
    ("docs/on-call.md", "Rights", 1, READERS_OBJECTS),
    ("docs/on-call.md", "Stop everything", 3, NEEDS_DEPLOYMENT),
    ("docs/on-call.md", "A snapshot", 2, NEEDS_DEPLOYMENT),
    ("docs/operations.md", "Rollback", 1, NEEDS_RELEASE),
    ("docs/operations.md", "Restore", 1, READERS_OBJECTS),
    ("docs/plain-pods.md", "Waiting pods", 1, EXAMPLE_OUTPUT),
    ("docs/plan.md", "trellis plan", 2, EXAMPLE_OUTPUT),
    ("docs/plan.md", "On files", 1, TestedBy("operator/cli/src/plan/snapshot/read_kinds.rs", "document_lists_every_kind_that_is_read")),
    ("docs/platform-teams.md", "Policies", 1, READERS_OBJECTS),
    ("docs/policies.md", "Tools", 1, POLICY_TESTS),
    ("docs/policies.md", "Testing", 2, POLICY_TESTS),
    ("docs/policies.md", "Trying", 1, POLICY_TESTS),
    ("docs/policies.md", "Comparing", 2, POLICY_TESTS),
    ("docs/policies/README.md", "Policy library", 1, NotRun("operator/cli/tests/policy/library.rs tests the folder so")),
    ("docs/queues.md", "Queues", 2, READERS_OBJECTS),
    ("docs/queues.md", "Lending and borrowing", 1, EXAMPLE_OUTPUT),
    ("docs/quick-start.md", "1. A cluster", 1, QUICK_START_TEST),
    ("docs/quick-start.md", "2. Install", 1, QUICK_START_TEST),
    ("docs/quick-start.md", "3. A job that runs", 1, QUICK_START_TEST),
    ("docs/quick-start.md", "5. A job that waits", 2, QUICK_START_TEST),
    ("docs/quick-start.md", "6. Suspend and resume", 1, QUICK_START_TEST),
    ("docs/quick-start.md", "7. A policy", 1, QUICK_START_TEST),
    ("docs/quick-start.md", "8. Clean up", 1, QUICK_START_TEST),
    ("docs/simulate.md", "Generated workload", 1, TestedBy("operator/cli/tests/simulate/traces.rs", "generated_gangs_share_a_growing_pool")),
    ("docs/simulate.md", "trellis simulate, trellis replay", 1, EXAMPLE_OUTPUT),
    ("docs/stages.md", "Stages", 1, EXAMPLE_OUTPUT),
    ("docs/traces.md", "Traces", 1, NEEDS_RELEASE),
    ("docs/verify.md", "Verify the promises", 1, TestedBy("e2e/tests/command_line/verify.rs", "verify_names_what_it_has_seen_and_what_it_cannot_see")),
    ("docs/verify.md", "A finding", 1, TestedBy("e2e/tests/command_line/verify.rs", "verify_reports_a_status_that_falls_back")),
    ("docs/webhook.md", "The admission webhook", 1, READERS_OBJECTS),
    ("docs/webhook.md", "Certificate", 1, NEEDS_RELEASE),
    ("docs/what-if.md", "What if", 1, EXAMPLE_OUTPUT),
];

/// Counts the blocks by page and heading.
type BlockCounts = BTreeMap<(String, String), usize>;

#[test]
fn every_command_block_has_a_test_or_a_reason() {
    let mut found = BlockCounts::new();
    for (path, text) in document_files() {
        let page = path
            .strip_prefix(repository_root())
            .unwrap()
            .display()
            .to_string();
        for block in blocks::all_blocks(&text) {
            if ["sh", "bash", "shell", "console"].contains(&block.language.as_str()) {
                *found.entry((page.clone(), block.heading)).or_default() += 1;
            }
        }
    }
    let known =
        BLOCKS.map(|(page, heading, count, _)| ((page.to_owned(), heading.to_owned()), count));
    let known = BTreeMap::from(known);
    assert_eq!(known.len(), BLOCKS.len(), "a heading appears twice");
    let other = |a: &BlockCounts, b: &BlockCounts| -> Vec<String> {
        let other = a.iter().filter(|(at, count)| b.get(at) != Some(count));
        other.map(|block| format!("{block:?}")).collect()
    };
    let (new, removed) = (other(&found, &known), other(&known, &found));
    assert!(
        new.is_empty() && removed.is_empty(),
        "in docs:\n{}\nhere:\n{}",
        new.join("\n"),
        removed.join("\n")
    );
    for (page, heading, _, run) in BLOCKS {
        match run {
            TestedBy(file, function) => {
                let text = std::fs::read_to_string(repository_root().join(file));
                let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
                let exists = text.contains(&format!("fn {function}("));
                assert!(exists, "{page}, {heading}: {file} has no {function}");
            }
            NotRun(reason) => assert!(!reason.is_empty(), "{page}, {heading}"),
        }
    }
}
