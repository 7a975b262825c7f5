//! The tests that stand beside the policies of an object.

use std::collections::BTreeSet;

use trellis_api::Enforcement;
use trellis_api::authorization_policy::{
    ExpectedDecision, PolicyTest, TestAction, TestContext, TestResource, TestVolumeKind,
};
use trellis_compiler::{Endpoint, Peer};

use super::ask::{Ask, Far, Object, VolumeKind};
use super::compile::Compiled;
use super::decision::{Decision, Verdict};
use super::evaluate;
use super::index::Index;
use super::object::PolicyObject;
use super::problem::Problem;
use super::scene::Scene;
use super::schema::Schema;
use super::subject::{About, Requester, Subject};

/// The tests that fail.
pub(super) fn failures(
    schema: &Schema,
    object: &PolicyObject,
    compiled: &Compiled,
) -> Vec<Problem> {
    let mut index = Index::default();
    // Whatever it is enforced as: what it says is tested.
    if let Err(super::index::Twice(error)) =
        index.add(schema, object, Enforcement::Deny, &compiled.policies)
    {
        return vec![Problem::new(
            "spec.cedar",
            error,
            "give each policy another @id",
        )];
    }
    let tests = object.tests.iter().enumerate();
    tests
        .filter_map(|(i, test)| {
            let failure = failure(schema, object, &index, test).err()?;
            let path = format!("spec.tests[{i}]");
            Some(match failure {
                Failure::Request(rule, fix) => Problem::new(format!("{path}.request"), rule, fix),
                Failure::Decision(came) => Problem::new(
                    path,
                    format!("the test {:?} fails: {came}", test.name),
                    "correct the policies, or what the test expects",
                ),
            })
        })
        .collect()
}

enum Failure {
    Request(String, &'static str),
    Decision(String),
}

fn failure(
    schema: &Schema,
    object: &PolicyObject,
    index: &Index,
    test: &PolicyTest,
) -> Result<(), Failure> {
    let request = &test.request;
    let subject = Subject {
        namespace: &request.namespace,
        labels: &request.namespace_labels,
    };
    let nothing = TestResource::default();
    let resource = request.resource.as_ref().unwrap_or(&nothing);
    let ask = ask(&request.namespace, request.action, resource)?;
    let unknown = TestContext::default();
    let context = request.context.as_ref().unwrap_or(&unknown);
    let requester = requester(context);
    let about = about(context, requester.as_ref());
    let unmade = |e: super::entity::Unmade| Failure::Request(e.0, "correct the request");
    let scene = Scene::new(schema, &subject, &about).map_err(unmade)?;
    let decision = evaluate::decide(index, &subject, &scene, &ask, &[]);
    judge(test, object, &decision)
}

fn judge(test: &PolicyTest, object: &PolicyObject, decision: &Decision) -> Result<(), Failure> {
    if let Some(why) = decision.why_undecided() {
        return Err(Failure::Decision(format!("it is not decided: {why}")));
    }
    // An object that only narrows allows what it does not forbid.
    let narrows = object.key.namespace.is_some() && decision.verdict == Verdict::NotPermitted;
    let came = if decision.allows() || narrows {
        ExpectedDecision::Allow
    } else {
        ExpectedDecision::Deny
    };
    if came != test.decision {
        return Err(Failure::Decision(format!(
            "expected {:?}, came {came:?} by {:?}",
            test.decision, decision.policies
        )));
    }
    match &test.policies {
        Some(expected) => {
            let expected: BTreeSet<_> = expected.iter().collect();
            if expected != decision.policies.iter().collect() {
                return Err(Failure::Decision(format!(
                    "expected {came:?} by {expected:?}, came by {:?}",
                    decision.policies
                )));
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// What the test asks for. Which fields of the resource it has follows from the action.
fn ask(namespace: &str, action: TestAction, resource: &TestResource) -> Result<Ask, Failure> {
    let name = || {
        let missing = "request.resource.name is missing";
        let missing = || Failure::Request(missing.to_owned(), "name what is asked for");
        resource.name.clone().ok_or_else(missing)
    };
    let object = || -> Result<Object, Failure> {
        let own = || namespace.to_owned();
        Ok(Object {
            namespace: resource.namespace.clone().unwrap_or_else(own),
            name: name()?,
        })
    };
    let far = || far(namespace, resource);
    Ok(match action {
        TestAction::Submit => Ask::Submit,
        TestAction::UseQueue => Ask::UseQueue {
            queue: name()?,
            selects_namespace: resource.selects_namespace.unwrap_or(true),
        },
        TestAction::UsePriorityClass => Ask::UsePriorityClass(name()?),
        TestAction::UseFlavor => Ask::UseFlavor(name()?),
        TestAction::UseImage => Ask::UseImage(name()?),
        TestAction::UseServiceAccount => Ask::UseServiceAccount(object()?),
        TestAction::UseSecret => Ask::UseSecret(object()?),
        TestAction::UseVolume => {
            let kind = match resource.kind.unwrap_or_default() {
                TestVolumeKind::Claim => VolumeKind::Claim,
                TestVolumeKind::ConfigMap => VolumeKind::ConfigMap,
            };
            Ask::UseVolume(kind, object()?)
        }
        TestAction::ConnectTo => Ask::ConnectTo(far()?),
        TestAction::AcceptFrom => Ask::AcceptFrom(far()?),
        TestAction::UsePrivilege => Ask::UsePrivilege(name()?),
    })
}

fn far(own: &str, resource: &TestResource) -> Result<Far, Failure> {
    let TestResource {
        cidr,
        service,
        namespace,
        ports,
        ..
    } = resource;
    let peer = match (cidr, service, namespace) {
        (Some(cidr), None, None) => Peer::Cidr(cidr.clone()),
        (None, Some(service), _) => Peer::Service(service.clone()),
        (None, None, Some(namespace)) => Peer::Namespace(namespace.clone()),
        _ => {
            return Err(Failure::Request(
                "request.resource must have exactly one of cidr, namespace and service".to_owned(),
                "say where the job connects to, or is reached from",
            ));
        }
    };
    Ok(Far {
        endpoint: Endpoint {
            peer,
            ports: ports.clone(),
        },
        namespace: namespace.clone().unwrap_or_else(|| own.to_owned()),
    })
}

fn requester(context: &TestContext) -> Option<Requester> {
    context.requester.as_ref().map(|requester| Requester {
        user: requester.user.clone(),
        groups: requester.groups.iter().cloned().collect(),
    })
}

fn about<'a>(context: &'a TestContext, requester: Option<&'a Requester>) -> About<'a> {
    About {
        job: context.job.as_deref().unwrap_or("test"),
        labels: &context.labels,
        requester,
        gpus: context.gpus.unwrap_or(0),
        pods: context.pods.unwrap_or(1),
        framework: super::demands::framework(context.framework.unwrap_or_default()),
        priority: context.priority.unwrap_or(0).into(),
        runtime_seconds: context.runtime_seconds,
        attempt: context.attempt.unwrap_or(1),
    }
}
