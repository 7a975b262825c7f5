//! docs/policies.md shows the real output.

use super::{input, policy_in, root};

/// Runs every block that begins with a command, in the folder of its files.
#[test]
fn output_in_the_document_matches_the_commands() {
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let mut examples = 0;
    for block in text.split("```console\n$ trellis policy ").skip(1) {
        let block = block.split("```").next().unwrap();
        let (command, expected) = block.split_once('\n').unwrap();
        let arguments: Vec<&str> = command.split(' ').collect();
        let run = policy_in(&input(), &arguments, "");
        assert_eq!(format!("{}{}", run.out, run.err), expected, "{command}");
        examples += 1;
    }
    assert!(examples >= 4, "{examples}");
}

/// The documented file of tests is the file that the test runs.
#[test]
fn tests_file_in_the_document_matches_the_file() {
    let text = std::fs::read_to_string(root().join("docs/policies.md")).unwrap();
    assert!(text.contains(&super::file("tests.yaml")));
}

/// The policy in docs/secrets.md permits the page's job, and the job needs it.
#[test]
fn policy_in_the_secrets_page_fits_its_job() {
    let text = std::fs::read_to_string(root().join("docs/secrets.md")).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let names_of = |kind: &str| {
        let mut blocks = blocks.clone();
        let kind = format!("\nkind: {kind}\n");
        blocks.find(|block| block.contains(&kind)).unwrap()
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {trellis.dev/team: llm}}\n";
    let job = format!("{}---\n{namespace}", names_of("TrainingJob"));
    let starter = "charts/trellis/files/policies.yaml";
    let eval = |files: &str| policy_in(&root(), &["eval", "-f", starter, "-f", "-"], files);
    let run = eval(&format!("{job}---\n{}", names_of("ClusterJobPolicy")));
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("by stores/team-folder"), "{}", run.out);
    assert_eq!(eval(&job).code, 1);
}
