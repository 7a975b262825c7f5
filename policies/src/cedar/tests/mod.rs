//! Tests that need private items: a different schema, and Cedar's own answer.

use std::collections::BTreeMap;

use cedar_policy::{Authorizer, PolicySet};
use trellis_api::Enforcement;
use trellis_api::job_policy::OnViolation;

use super::ask::Ask;
use super::object::{ObjectKey, PolicyObject};
use super::scene::Scene;
use super::schema::{Schema, schema_text};
use super::set::{Loader, ObjectState};
use super::subject::{About, Subject};
use super::{Decision, Verdict};

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
        unreadable: None,
    }
}

fn within<T>(work: impl FnOnce(&Subject<'_>, &About<'_>) -> T) -> T {
    let labels = BTreeMap::new();
    let subject = Subject {
        namespace: "ml",
        labels: &labels,
    };
    let about = About {
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

fn ask() -> Ask {
    Ask::UsePriorityClass("high".to_owned())
}

fn decide(policies: &super::Policies) -> Decision {
    within(|subject, about| policies.decide(subject, about, [&ask()])).remove(0)
}

/// A version of Trellis whose schema lacks an attribute that a policy asks for.
#[test]
fn an_attribute_that_is_gone_from_the_schema_denies() {
    let text = "permit(principal, action, resource) when { context.attempt < 9 };";
    let (policies, _) = Loader::new().unwrap().load(None, vec![object("x", text)]);
    assert!(decide(&policies).allows());

    let without = schema_text().replace("    attempt: Long,\n", "");
    let later = Loader::of(Schema::of_text(&without).unwrap());
    let all = object("all", "permit(principal, action, resource);");
    let (policies, verdicts) = later.load(None, vec![object("x", text), all.clone()]);
    assert_eq!(verdicts[0].state, ObjectState::Invalid);
    assert!(
        verdicts[0].problems[0].message.contains("`attempt`"),
        "{verdicts:?}"
    );
    // The request has an attribute that the schema lacks, so that it cannot be decided.
    assert!(matches!(decide(&policies).verdict, Verdict::Undecided(_)));
    let (policies, _) = later.load(None, vec![all]);
    assert!(matches!(decide(&policies).verdict, Verdict::Undecided(_)));
}

/// Several policy sets together give the same answer as Cedar gives for one set.
#[test]
fn the_answer_is_that_of_one_whole_set() {
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
    let schema = Schema::new().unwrap();
    let loader = Loader::new().unwrap();
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
        let posed = within(|s, a| Scene::new(&schema, s, a).unwrap().pose(&ask()).unwrap());
        let response = Authorizer::new().is_authorized(&posed.request, &whole, &posed.entities);
        let errs = response.diagnostics().errors().next().is_some();
        let allowed = response.decision() == cedar_policy::Decision::Allow && !errs;
        assert_eq!(decision.allows(), allowed, "{chosen:?}");
        if !matches!(decision.verdict, Verdict::Undecided(_)) {
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
