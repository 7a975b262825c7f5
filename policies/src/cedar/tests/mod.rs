//! Tests that need private items: a different schema, and Cedar's own answer.

use std::collections::BTreeMap;

use cedar_policy::{Authorizer, PolicySet};
use trellis_api::Enforcement;
use trellis_api::job_policy::OnViolation;

use super::object::{ObjectKey, PolicyObject};
use super::request::{
    JobAttributes, PolicyRequest, PolicySchema, RequestContext, RequestingNamespace, schema_text,
};
use super::set::{PolicyLoader, PolicyObjectState};
use super::{RequestDecision, RequestVerdict};

fn object(name: &str, cedar: &str) -> PolicyObject {
    PolicyObject {
        key: ObjectKey {
            namespace: None,
            name: name.to_owned(),
        },
        uid: name.to_owned(),
        generation: None,
        cedar: cedar.to_owned(),
        enforcement: Enforcement::Deny,
        on_violation: OnViolation::Report,
        selector: None,
        tests: Vec::new(),
        decode_error: None,
    }
}

fn with_job_attributes<T>(
    work: impl FnOnce(&RequestingNamespace<'_>, &JobAttributes<'_>) -> T,
) -> T {
    let labels = BTreeMap::new();
    let subject = RequestingNamespace {
        namespace: "ml",
        labels: &labels,
    };
    let about = JobAttributes {
        job: "llm",
        labels: &labels,
        requester: None,
        gpus: 8,
        pods: 1,
        framework: "None",
        priority: 0,
        runtime_seconds: None,
        profile: None,
        attempt: 1,
    };
    work(&subject, &about)
}

fn queue_request() -> PolicyRequest {
    PolicyRequest::UsePriorityClass("high".to_owned())
}

fn decide(policies: &super::Policies) -> RequestDecision {
    with_job_attributes(|subject, about| policies.decide(subject, about, [&queue_request()]))
        .remove(0)
}

/// A version of Trellis whose schema lacks an attribute that a policy asks for.
#[test]
fn policy_denies_when_the_schema_lacks_its_attribute() {
    let text = "permit(principal, action, resource) when { context.attempt < 9 };";
    let (policies, _) = PolicyLoader::new()
        .unwrap()
        .load(None, vec![object("x", text)]);
    assert!(decide(&policies).is_allowed());

    let without = schema_text().replace("    attempt: Long,\n", "");
    let later = PolicyLoader::with_schema(PolicySchema::from_text(&without).unwrap());
    let all = object("all", "permit(principal, action, resource);");
    let (policies, verdicts) = later.load(None, vec![object("x", text), all.clone()]);
    assert_eq!(verdicts[0].state, PolicyObjectState::Invalid);
    assert!(
        verdicts[0].problems[0].message.contains("`attempt`"),
        "{verdicts:?}"
    );
    // The request has an attribute that the schema lacks, so that it cannot be decided.
    assert!(matches!(
        decide(&policies).verdict,
        RequestVerdict::Undecided(_)
    ));
    let (policies, _) = later.load(None, vec![all]);
    assert!(matches!(
        decide(&policies).verdict,
        RequestVerdict::Undecided(_)
    ));
}

/// Several policy sets together give the same answer as Cedar gives for one set.
#[test]
fn decision_over_several_sets_equals_cedars_for_one_set() {
    let texts = [
        "permit(principal, action, resource);",
        "permit(principal == Trellis::Namespace::\"ml\", action, resource);",
        "permit(principal, action == Trellis::Action::\"UseQueue\", resource);",
        "permit(principal, action, resource) when { context.gpus > 8 };",
        "forbid(principal == Trellis::Namespace::\"ops\", action, resource);",
        "forbid(principal, action == Trellis::Action::\"UsePriorityClass\", resource);",
        "forbid(principal, action, resource) unless { context.gpus > 7 };",
        "forbid(principal, action, resource) when { context.gpus + 9223372036854775807 > 0 };",
    ];
    let schema = PolicySchema::new().unwrap();
    let loader = PolicyLoader::new().unwrap();
    // Each subset of them, an object each.
    for subset in 0_u32..1 << texts.len() {
        let chosen = (0..texts.len()).filter(|i| subset & (1 << i) != 0);
        let chosen: Vec<_> = chosen.map(|i| (format!("o{i}"), texts[i])).collect();
        let objects = chosen
            .iter()
            .map(|(name, text)| object(name, text))
            .collect();
        let decision = decide(&loader.load(None, objects).0);

        let mut whole = PolicySet::new();
        for (name, text) in &chosen {
            let id = cedar_policy::PolicyId::new(format!("{name}/0"));
            whole
                .add(cedar_policy::Policy::parse(Some(id), text).unwrap())
                .unwrap();
        }
        let posed = with_job_attributes(|s, a| {
            RequestContext::new(&schema, s, a)
                .unwrap()
                .build_request(&queue_request())
                .unwrap()
        });
        let response = Authorizer::new().is_authorized(&posed.request, &whole, &posed.entities);
        let errs = response.diagnostics().errors().next().is_some();
        let allowed = response.decision() == cedar_policy::Decision::Allow && !errs;
        assert_eq!(decision.is_allowed(), allowed, "{chosen:?}");
        if !matches!(decision.verdict, RequestVerdict::Undecided(_)) {
            let mut reasons: Vec<_> = response
                .diagnostics()
                .reason()
                .map(ToString::to_string)
                .collect();
            reasons.sort();
            assert_eq!(decision.policies, reasons, "{chosen:?}");
        }
        assert_eq!(decision.errors.is_empty(), !errs, "{chosen:?}");
    }
}
