//! docs/policies.md names every rule.

use trellis_policies::FixedRule;

#[test]
fn every_fixed_rule_is_documented() {
    let text = include_str!("../../../docs/policies.md");
    let (_, of_rules) = text.split_once("### Fixed rules").unwrap();
    let (of_rules, _) = of_rules.split_once("\n## ").unwrap();
    let told: Vec<&str> = of_rules
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let all = [
        FixedRule::FactsOfTheJob,
        FixedRule::UserPriority,
        FixedRule::FinalPod,
    ];
    // A new rule does not compile here until it is documented.
    for rule in all {
        match rule {
            FixedRule::FactsOfTheJob | FixedRule::UserPriority | FixedRule::FinalPod => {}
        }
    }
    assert_eq!(told, all.map(FixedRule::as_str));
}
