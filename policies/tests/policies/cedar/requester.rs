//! Policies that depend on who requests a job.

use trellis_policies::cedar::{Policies, RequestVerdict, Requester};

use super::support::{ALLOW_ALL, RequestFixture, cluster, loader, queue_request, set};

/// Returns whether ada of group `research`, bob of group `sales`, and an unknown requester are
/// allowed.
fn allowed(policies: &Policies) -> [bool; 3] {
    let known = |user: &str, group: &str| {
        Some(Requester {
            user: user.to_owned(),
            groups: [group.to_owned()].into(),
        })
    };
    [known("ada", "research"), known("bob", "sales"), None].map(|requester| {
        let fixture = RequestFixture {
            requester,
            ..RequestFixture::default()
        };
        let decision = fixture.decide(policies, "ml", &queue_request("prod"));
        assert!(decision.errors.is_empty(), "{:?}", decision.errors);
        decision.verdict == RequestVerdict::Allowed
    })
}

const IS_BOB: &str = "context has requester && context.requester.user == \"bob\"";
const IS_RESEARCH: &str =
    "context has requester && context.requester.groups.contains(\"research\")";

#[test]
fn forbid_that_reads_the_requester_applies_to_an_unknown_requester() {
    let cases = [
        (format!("when {{ {IS_BOB} }}"), [true, false, false]),
        (format!("unless {{ {IS_RESEARCH} }}"), [true, false, false]),
        (format!("unless {{ !({IS_BOB}) }}"), [true, false, false]),
        (
            format!("when {{ {IS_BOB} }} when {{ context.gpus > 64 }}"),
            [true, true, true],
        ),
        (
            format!("when {{ {IS_BOB} && context.gpus > 64 }}"),
            [true, true, true],
        ),
        (
            format!("when {{ {IS_BOB} && context.gpus < 64 }}"),
            [true, false, false],
        ),
        (
            format!("when {{ context.gpus > 64 || ({IS_BOB}) }}"),
            [true, false, false],
        ),
        (
            "when { if context has requester && context.gpus < 64 \
             then context.requester.user == \"bob\" else false }"
                .to_owned(),
            [true, false, false],
        ),
    ];
    for (condition, expected) in cases {
        let forbid = format!("forbid(principal, action, resource) {condition};");
        let policies = set(vec![cluster("all", ALLOW_ALL), cluster("x", &forbid)]);
        assert_eq!(allowed(&policies), expected, "{condition}");
    }
}

/// The longest policy gets a stack for its evaluation that is large enough.
#[test]
fn longest_policy_that_reads_the_requester_is_evaluated() {
    let long = " && context.gpus < 64".repeat(160);
    let forbid = format!("forbid(principal, action, resource) when {{ {IS_BOB}{long} }};");
    let policies = set(vec![cluster("all", ALLOW_ALL), cluster("x", &forbid)]);
    assert_eq!(allowed(&policies), [true, false, false]);
}

#[test]
fn permit_that_reads_the_requester_permits_no_unknown_requester() {
    let cases = [
        (format!("when {{ {IS_RESEARCH} }}"), [true, false, false]),
        (format!("unless {{ {IS_BOB} }}"), [true, false, false]),
        (
            format!("when {{ !({IS_BOB}) && context.gpus < 64 }}"),
            [true, false, false],
        ),
        (
            format!("when {{ context.gpus < 64 || ({IS_BOB}) }}"),
            [true, true, true],
        ),
    ];
    for (condition, expected) in cases {
        let permit = format!("permit(principal, action, resource) {condition};");
        assert_eq!(
            allowed(&set(vec![cluster("x", &permit)])),
            expected,
            "{condition}"
        );
    }
}

#[test]
fn author_decides_about_unknown_requesters_by_asking_for_them() {
    let cases = [
        (
            "permit",
            "when { !(context has requester) }",
            [false, false, true],
        ),
        (
            "permit",
            "when { context has requester }",
            [true, true, false],
        ),
        (
            "permit",
            "when { if context has requester then context.requester.user == \"ada\" else true }",
            [true, false, true],
        ),
        (
            "forbid",
            "when { !(context has requester) }",
            [true, true, false],
        ),
        (
            "forbid",
            "when { context has requester }",
            [false, false, true],
        ),
        (
            "forbid",
            "when { if context has requester then context.requester.user == \"bob\" else false }",
            [true, false, true],
        ),
    ];
    for (effect, condition, expected) in cases {
        let policy = format!("{effect}(principal, action, resource) {condition};");
        let mut objects = vec![cluster("x", &policy)];
        objects.extend((effect == "forbid").then(|| cluster("all", ALLOW_ALL)));
        assert_eq!(allowed(&set(objects)), expected, "{effect} {condition}");
    }
}

#[test]
fn load_result_reports_policies_that_read_the_requester() {
    let reads = |condition: &str| {
        let text = format!("@id(\"one\") forbid(principal, action, resource) {condition};");
        let (_, results) = loader().load(None, vec![cluster("x", &text)]);
        assert_eq!(results[0].policy_ids, ["x/one"]);
        results[0].reads_requester
    };
    assert!(reads(&format!("when {{ {IS_BOB} }}")));
    assert!(!reads("when { context has requester }"));
    assert!(!reads("when { context.job.name == \"requester\" }"));
}
