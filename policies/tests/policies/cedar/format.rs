//! Formatted policies are the same policies, with the same comments.

use proptest::prelude::*;
use trellis_policies::cedar::{RequestDecision, format};

use super::support::{
    ALLOW_ALL, RequestFixture, cases, cluster, queue_request, run_on_stack, secret_request, set,
};

fn formatted(text: &str) -> String {
    let told = |problems: Vec<trellis_policies::cedar::PolicyProblem>| {
        problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    format(text).map_err(told).unwrap()
}

fn refused(text: &str) -> String {
    format(text).unwrap_err().remove(0).to_string()
}

#[test]
fn policy_is_formatted_in_cedar_style() {
    let text = "// Why.\n@id(\"a\")permit(principal in Trellis::Team::\"x\",action==Trellis::Action::\"UseQueue\",\nresource)when{context.gpus>8&&resource.selectsNamespace};";
    assert_eq!(
        formatted(text),
        "// Why.\n@id(\"a\")\npermit (\n  principal in Trellis::Team::\"x\",\n  action == Trellis::Action::\"UseQueue\",\n  resource\n)\nwhen { context.gpus > 8 && resource.selectsNamespace };\n"
    );
}

#[test]
fn invalid_text_is_refused_with_its_position() {
    let said = refused("permit(principal, action, resource)\nwhen { context.gpus >< 8 };");
    assert!(said.starts_with("spec.cedar:2:22: "), "{said}");
    assert!(said.ends_with('^'), "{said}");
    assert!(refused("").contains("has no policy"));
    let template = "permit(principal == ?principal, action, resource);";
    assert!(refused(template).contains("templates are not taken"));
    assert!(refused(&"(".repeat(60_000)).contains("nested deeper"));
}

/// The formatter drops a comma before a bracket, and a comment behind it.
#[test]
fn format_refuses_text_that_would_lose_a_comment() {
    let said =
        refused("permit(principal, action, resource)\nwhen { [1, 2\n, // why\n].contains(1) };");
    assert_eq!(
        said,
        "spec.cedar:3:3: cannot be formatted: a comment would be lost: put comments before whole conditions, or format it by hand\n3 | , // why\n  |   ^^^^^^"
    );
}

/// The deepest and longest that are taken, on a small stack: formatted or refused,
/// in words and in time.
#[test]
fn deep_policy_is_formatted_on_a_small_stack() {
    let when = |body: String| format!("permit(principal, action, resource) when {{ {body} }};");
    for body in [
        format!("{}true{}", "[true].contains(".repeat(7), ")".repeat(7)),
        format!("true{}", " && context.gpus > 1".repeat(160)),
        format!("1{} > 1", " + 1".repeat(500)),
        format!("context{}", ".a".repeat(500)),
        format!("true{}", " } when { true".repeat(250)),
        format!("{}true", "if true then true else ".repeat(14)),
    ] {
        let text = when(body);
        let started = std::time::Instant::now();
        let done = run_on_stack(320 << 10, move || format(&text).map_err(|p| p.len()));
        assert!(done.is_ok(), "{done:?}");
        assert!(started.elapsed().as_secs() < 20);
    }
}

/// A condition, or a part of one.
fn condition() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "context.gpus > 7",
        "context.gpus + 1 > 8",
        "context.pods * 2 == 2",
        "principal.name == \"ml\"",
        "principal.name like \"m*\"",
        "principal in Trellis::Team::\"x\"",
        "context has requester",
        "context has requester && context.requester.user == \"// no comment\"",
        "[1, 2, 3].contains(context.pods)",
        "ip(\"10.0.0.1\").isInRange(ip(\"10.0.0.0/8\"))",
        "-1 < context.priority",
        "context.job.hasTag(\"a b\")",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("if {a} then ({b}) else ({c})")),
        ]
    })
}

/// White space, and comments.
fn whitespace() -> impl Strategy<Value = &'static str> {
    let gaps = vec![
        "",
        " ",
        "\n",
        "\n\n",
        "\t ",
        " // why: \"so\"\n",
        "\n// above\n",
    ];
    prop::sample::select(gaps)
}

fn policy() -> impl Strategy<Value = String> {
    let head = prop::sample::select(vec![
        "principal, action, resource",
        "principal == Trellis::Namespace::\"ml\", action, resource",
        "principal, action == Trellis::Action::\"UseQueue\", resource",
        "principal, action in [Trellis::Action::\"UseQueue\", Trellis::Action::\"UseSecret\"], resource",
    ]);
    let effect = prop::sample::select(vec!["permit", "forbid"]);
    let clause = (prop::sample::select(vec!["when", "unless"]), condition());
    let clauses = prop::collection::vec(clause, 0..3);
    (
        effect,
        head,
        clauses,
        prop::collection::vec(whitespace(), 8),
    )
        .prop_map(|(effect, head, clauses, gaps)| {
            let clauses: String = clauses
                .iter()
                .map(|(word, body)| format!("{}{word}{}{{ {body} }}{}", gaps[0], gaps[1], gaps[2]))
                .collect();
            format!(
                "{}{effect}{}({}{head}{}){}{clauses};{}",
                gaps[3], gaps[4], gaps[5], gaps[6], gaps[7], gaps[0]
            )
        })
}

/// Decisions of a policy text about some requests.
fn decisions(text: &str) -> Vec<RequestDecision> {
    let policies = set(vec![cluster("x", text), cluster("all", ALLOW_ALL)]);
    let mut all = Vec::new();
    for gpus in [1, 7, 8, 9] {
        for namespace in ["ml", "ops"] {
            let around = RequestFixture {
                gpus,
                ..RequestFixture::default()
            };
            for ask in [queue_request("prod"), secret_request("ml", "token")] {
                all.push(around.decide_once(&policies, namespace, &ask));
            }
        }
    }
    all
}

fn comments(text: &str) -> usize {
    ["// why: \"so\"", "// above"]
        .iter()
        .map(|c| text.matches(c).count())
        .sum()
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn formatting_keeps_decisions_and_comments(texts in prop::collection::vec(policy(), 1..4)) {
        let text = texts.join("\n");
        // Not every text is valid: a policy that can never apply is none.
        let good = super::support::load_problems(cluster("x", &text)).is_empty();
        match format(&text) {
            Ok(formatted) => {
                prop_assert_eq!(format(&formatted), Ok(formatted.clone()), "it is at rest");
                prop_assert_eq!(comments(&formatted), comments(&text), "{}", formatted);
                if good {
                    prop_assert_eq!(decisions(&formatted), decisions(&text), "{}", formatted);
                }
            }
            Err(problems) => {
                // The formatter may refuse a text only because of a comment that it would lose.
                prop_assert!(comments(&text) > 0, "{text}\n{problems:?}");
            }
        }
    }
}
