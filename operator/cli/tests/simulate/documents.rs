//! The outputs in docs/simulate.md match what the commands print.

use super::{root, simulate_text};

/// Checks each `yaml` block that is a scenario.
/// The `text` block after it has the command in its first line and the output in the other lines.
#[test]
fn scenarios_in_the_document_print_the_documented_output() {
    let text = std::fs::read_to_string(root().join("docs/simulate.md")).unwrap();
    let mut blocks = text.split("```").skip(1).step_by(2).peekable();
    let mut examples = 0;
    while let Some(block) = blocks.next() {
        let Some(yaml) = block.strip_prefix("yaml\n") else {
            continue;
        };
        if !yaml.contains("kind: Scenario") {
            continue;
        }
        let Some(expected) = blocks.peek().and_then(|b| b.strip_prefix("text\n")) else {
            continue;
        };
        let run = simulate_text(yaml, &[]);
        let (_, printed) = expected.split_once('\n').unwrap();
        let all = format!("{}{}exit status {}\n", run.out, run.err, run.code);
        assert_eq!(all, printed, "\n{all}");
        examples += 1;
    }
    assert_eq!(examples, 2);
}
