//! Policies that are not taken: the place, the rule, the fix.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::{
    ALLOW_ALL, cluster, cluster_with, decide, load_problems, queue_request, run_on_stack, set,
};

#[test]
fn misspelt_attribute_is_marked_with_carets() {
    let text = "permit(principal, action, resource)\nwhen { context.gpu > 8 };\n";
    assert_eq!(
        load_problems(cluster("x", text)),
        "spec.cedar:2:8: attribute `gpu` in context for \
         Trellis::Action::\"AcceptFrom\" not found: did you mean `gpus`?\n\
         2 | when { context.gpu > 8 };\n  |        ^^^^^^^^^^^"
    );
}

#[test]
fn invalid_policy_is_refused_with_position_and_fix() {
    let many = "permit(principal, action, resource);\n".repeat(129);
    let long = format!("// {}\n{ALLOW_ALL}", "x".repeat(65_536));
    for (text, words) in [
        ("", "has no policy"),
        ("// nothing", "has no policy"),
        (
            "permit(principal, action, resource)",
            "spec.cedar:1:36: unexpected end of input",
        ),
        (
            "permit(principal, action, resource) when { 1 + true };",
            "1:48: unexpected type: expected Long but saw",
        ),
        (
            "forbid(principal, action, resource) when { context has requestr };",
            "policy is impossible",
        ),
        (
            "permit(principal, action == Trellis::Action::\"UseQueue\", resource is Trellis::Image);",
            "spec.cedar:1:1: ",
        ),
        (
            "permit(principal, action == Trellis::Action::\"UseQueu\", resource);",
            "unrecognized action",
        ),
        (
            "permit(principal, action == Action::\"UseQueue\", resource);",
            "unrecognized",
        ),
        (
            "permit(principal in Trellis::Tem::\"a\", action, resource);",
            "unrecognized entity type `Trellis::Tem`: did you mean `Trellis::Team`?",
        ),
        (
            "permit(principal == ?principal, action, resource);",
            "spec.cedar:1:21: templates are not taken",
        ),
        (
            "@id(\"a b\") permit(principal, action, resource);",
            "\"a b\" cannot be the @id of a policy",
        ),
        (
            "@id(\"a/b\") permit(principal, action, resource);",
            "cannot be the @id",
        ),
        (
            "@id(\"\") permit(principal, action, resource);",
            "cannot be the @id",
        ),
        (
            "@id(\"a\") permit(principal, action, resource); @id(\"a\") forbid(principal, action, resource);",
            "two policies have the id \"a\"",
        ),
        (
            "@id(\"1\") permit(principal, action, resource); forbid(principal, action, resource);",
            "two policies have the id \"1\"",
        ),
        (&many, "more than 128 policies"),
        (&long, "must have 1 to 65536 characters"),
        // The text looks different from what Cedar compares.
        (
            "permit(principal == Trellis::Namespace::\"a\u{202e}b\", action, resource);",
            "BIDI",
        ),
        (
            "permit(principal == Trellis::Namespace::\"mⅼ\", action, resource);",
            "General Security Profile",
        ),
    ] {
        let said = load_problems(cluster("x", text));
        assert!(said.contains(words), "{text:.80}\n{said}");
        assert!(said.starts_with("spec.cedar"), "{said}");
    }
}

#[test]
fn policy_with_an_invalid_selector_is_refused() {
    for expression in [
        json!({"key": "a", "operator": "in", "values": ["b"]}),
        json!({"key": "a", "operator": "In"}),
        json!({"key": "a", "operator": "Exists", "values": ["b"]}),
    ] {
        let selector = json!({"namespaceSelector": {"matchExpressions": [expression]}});
        let said = load_problems(cluster_with("x", ALLOW_ALL, selector));
        assert!(said.starts_with("spec.namespaceSelector: "), "{said}");
    }
}

#[test]
fn policy_is_refused_when_a_test_fails_or_lacks_a_resource() {
    let test = |request: serde_json::Value, decision: &str, policies: serde_json::Value| {
        let test =
            json!({"name": "t", "request": request, "decision": decision, "policies": policies});
        let tests = json!({"tests": [{"name": "good", "decision": "Deny", "request": {
            "namespace": "ops", "action": "UseQueue", "resource": {"name": "prod"}}}, test]});
        let text = "@id(\"ml\") permit(principal == Trellis::Namespace::\"ml\", \
                    action == Trellis::Action::\"UseQueue\", resource);";
        load_problems(cluster_with("x", text, tests))
    };
    let ml = json!({"namespace": "ml", "action": "UseQueue", "resource": {"name": "prod"}});
    assert_eq!(test(ml.clone(), "Allow", json!(null)), "");
    assert_eq!(test(ml.clone(), "Allow", json!(["x/ml"])), "");
    let said = test(ml.clone(), "Deny", json!(null));
    assert_eq!(
        said,
        "spec.tests[1]: the test \"t\" fails: expected Deny, came Allow by [\"x/ml\"]: \
         correct the policies, or what the test expects"
    );
    let said = test(ml, "Allow", json!([]));
    assert!(
        said.contains("expected Allow by {}, came by [\"x/ml\"]"),
        "{said}"
    );
    let nothing = json!({"namespace": "ml", "action": "UseQueue"});
    let said = test(nothing, "Allow", json!(null));
    assert!(
        said.starts_with(
            "spec.tests[1].request: the test \"t\" fails: request.resource.name is missing"
        ),
        "{said}"
    );
    let two = json!({"namespace": "ml", "action": "ConnectTo", "resource": {"cidr": "10.0.0.0/8", "service": "s"}});
    let said = test(two, "Allow", json!(null));
    assert!(
        said.contains("exactly one of cidr, namespace and service"),
        "{said}"
    );
}

/// Deep and long texts on a small stack: a clear answer in bounded time.
#[test]
fn deeply_nested_policy_is_refused_before_parsing() {
    let when = |body: String| format!("permit(principal, action, resource) when {{ {body} }};");
    let nested = |open: &str, inner: &str, close: &str, n: usize| {
        when(format!("{}{inner}{}", open.repeat(n), close.repeat(n)))
    };
    let bombs = [
        nested("(", "true", ")", 20_000),
        nested("[", "1", "]", 20_000),
        nested("{a: ", "1", "}", 10_000),
        nested("[1].contains(", "1", ")", 4_000),
        nested("if true then true else ", "true", "", 2_500),
        nested("!", "true", "", 50_000),
        nested("-", "1", "", 50_000),
        when(format!("true{}", " && true".repeat(8_000))),
        when(format!("true{}", " || context.gpus > 1".repeat(3_000))),
        when(format!("1{} == 1", " + 1".repeat(10_000))),
        when(format!("context{}", ".a".repeat(20_000))),
        when(format!("context{}", "[\"a\"]".repeat(10_000))),
        "(".repeat(60_000),
        format!("{}{ALLOW_ALL}", "@a(\"b\")".repeat(8_000)),
        "permit(principal, action, resource)".to_owned() + &" when { true }".repeat(4_000) + ";",
        "x;".repeat(30_000),
        "\"".repeat(65_536),
        "\u{0}".repeat(65_536),
    ];
    for bomb in bombs {
        let head: String = bomb.chars().take(70).collect();
        let started = Instant::now();
        let object = cluster("x", &bomb);
        let said = run_on_stack(1 << 20, move || load_problems(object));
        assert!(started.elapsed() < Duration::from_secs(20), "{head}");
        assert!(!said.is_empty(), "{head}");
        assert!(said.len() < 60_000, "{head}: {}", said.len());
    }
}

/// The deepest and longest policies within the bounds, on the same small stack: each is accepted or
/// refused with a message.
#[test]
fn policy_within_the_bounds_is_checked_on_a_small_stack() {
    let within = |body: &str| format!("permit(principal, action, resource) when {{ {body} }};");
    let contains = format!("{}true{}", "[true].contains(".repeat(7), ")".repeat(7));
    let both = format!(
        "{}true{}",
        "(true && context.gpus + 1 > 2 && ".repeat(15),
        ")".repeat(15)
    );
    for (body, taken) in [
        (contains, true),
        (both, true),
        (format!("true{}", " && context.gpus > 1".repeat(160)), true),
        (format!("1{} > 1", " + 1".repeat(500)), true),
        (format!("1{} > 1", " - context.gpus".repeat(250)), true),
        (format!("context{}", ".a".repeat(500)), false),
        (format!("context{}", "[\"a\"]".repeat(500)), false),
        (format!("context{}", ".a()".repeat(250)), false),
        (format!("true{}", " } when { true".repeat(250)), true),
    ] {
        let object = cluster("x", &within(&body));
        let said = run_on_stack(1 << 20, move || load_problems(object));
        assert_eq!(said.is_empty(), taken, "{body:.80}: {said}");
    }
}

/// A policy within the bounds is evaluated however little stack the caller has.
#[test]
fn deep_policy_is_evaluated_on_a_small_stack() {
    for (body, n) in [
        (" + 1", 500),
        (" + 1", 100),
        (" + 1", 20),
        (" + 1", 1),
        ("", 0),
    ] {
        let text = format!(
            "permit(principal, action, resource) when {{ context.gpus{} > 0 }};",
            body.repeat(n)
        );
        let policies = set(vec![cluster("x", &text)]);
        let decide = move || decide(&policies, "ml", &queue_request("prod"));
        let decision = run_on_stack(320 << 10, decide);
        assert!(decision.is_allowed(), "{n}: {decision:?}");
    }
}
