//! docs/policies.md names the rules that there are.

use trellis_policies::Rule;

#[test]
fn every_rule_has_its_row() {
    let text = include_str!("../../../docs/policies.md");
    let told: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let all = [
        Rule::QueueSelectsNamespace,
        Rule::UserPriority,
        Rule::PodSecurity,
    ];
    // A rule that is added does not compile here until it is told.
    for rule in all {
        match rule {
            Rule::QueueSelectsNamespace | Rule::UserPriority | Rule::PodSecurity => {}
        }
    }
    assert_eq!(told, all.map(Rule::as_str));
}
