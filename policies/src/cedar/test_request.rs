//! The requests that tests make, as policies are asked.

use trellis_api::job_policy::{TestAction, TestContext, TestRequest, TestResource, TestVolumeKind};
use trellis_compiler::{Endpoint, Peer, RemoteSecret};

use super::decision::RequestDecision;
use super::policy_request::{
    NamespacedName, NetworkPeer, PolicyRequest, RemoteSecretRef, VolumeKind,
};
use super::policy_set::Policies;
use super::principal::{JobAttributes, Requester, RequestingNamespace};
use super::problem::PolicyProblem;

/// A request that asks for something.
pub(super) struct ParsedTestRequest<'a> {
    request: &'a TestRequest,
    context: TestContext,
    requester: Option<Requester>,
    pub(super) policy_request: PolicyRequest,
}

/// A request that cannot be built: the violated rule and the fix.
pub(super) struct InvalidTestRequest(String, &'static str);

impl InvalidTestRequest {
    /// The problem at a field.
    pub(super) fn into_problem(self, path: &str) -> PolicyProblem {
        PolicyProblem::new(path, self.0, self.1)
    }
}

impl<'a> ParsedTestRequest<'a> {
    pub(super) fn new(request: &'a TestRequest) -> Result<Self, InvalidTestRequest> {
        let resource = request.resource.clone().unwrap_or_default();
        let context = request.context.clone().unwrap_or_default();
        Ok(Self {
            request,
            requester: parse_requester(&context),
            context,
            policy_request: parse_request(&request.namespace, request.action, &resource)?,
        })
    }

    pub(super) fn subject(&self) -> RequestingNamespace<'_> {
        RequestingNamespace {
            namespace: &self.request.namespace,
            labels: &self.request.namespace_labels,
        }
    }

    pub(super) fn job_attributes(&self) -> JobAttributes<'_> {
        parse_job_attributes(&self.context, self.requester.as_ref())
    }
}

impl Policies {
    /// Decides the request of a test.
    ///
    /// # Errors
    /// If the request does not name its resource completely.
    pub fn decide_test_request(
        &self,
        request: &TestRequest,
    ) -> Result<RequestDecision, PolicyProblem> {
        let posed =
            ParsedTestRequest::new(request).map_err(|unposed| unposed.into_problem("request"))?;
        let decided = self.decide(
            &posed.subject(),
            &posed.job_attributes(),
            [&posed.policy_request],
        );
        let nothing = || PolicyProblem::new("request", "is not decided", "report it");
        decided.into_iter().next().ok_or_else(nothing)
    }
}

/// The question that a test asks. The action determines which fields of the resource it needs.
fn parse_request(
    namespace: &str,
    action: TestAction,
    resource: &TestResource,
) -> Result<PolicyRequest, InvalidTestRequest> {
    let name = || {
        let missing = "request.resource.name is missing";
        let missing = || InvalidTestRequest(missing.to_owned(), "name what is asked for");
        resource.name.clone().ok_or_else(missing)
    };
    let object = || -> Result<NamespacedName, InvalidTestRequest> {
        let own = || namespace.to_owned();
        Ok(NamespacedName {
            namespace: resource.namespace.clone().unwrap_or_else(own),
            name: name()?,
        })
    };
    let far = || parse_peer(namespace, resource);
    Ok(match action {
        TestAction::Submit => PolicyRequest::Submit,
        TestAction::UseQueue => PolicyRequest::UseQueue {
            queue: name()?,
            selects_namespace: resource.selects_namespace.unwrap_or(true),
        },
        TestAction::UsePriorityClass => PolicyRequest::UsePriorityClass(name()?),
        TestAction::UseFlavor => PolicyRequest::UseFlavor(name()?),
        TestAction::UseImage => PolicyRequest::UseImage(name()?),
        TestAction::UseServiceAccount => PolicyRequest::UseServiceAccount(object()?),
        TestAction::UseSecret => match &resource.store {
            None => PolicyRequest::UseSecret(object()?),
            Some(store) => PolicyRequest::UseRemoteSecret(RemoteSecretRef {
                namespace: namespace.to_owned(),
                secret: RemoteSecret {
                    kind: store.kind,
                    store: store.name.clone(),
                    path: store.path.clone(),
                },
            }),
        },
        TestAction::UseVolume => {
            let kind = match resource.kind.unwrap_or_default() {
                TestVolumeKind::Claim => VolumeKind::Claim,
                TestVolumeKind::ConfigMap => VolumeKind::ConfigMap,
                TestVolumeKind::Ephemeral => VolumeKind::Ephemeral,
            };
            PolicyRequest::UseVolume(kind, object()?)
        }
        TestAction::ConnectTo => PolicyRequest::ConnectTo(far()?),
        TestAction::AcceptFrom => PolicyRequest::AcceptFrom(far()?),
        TestAction::UsePrivilege => PolicyRequest::UsePrivilege(name()?),
    })
}

fn parse_peer(own: &str, resource: &TestResource) -> Result<NetworkPeer, InvalidTestRequest> {
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
            return Err(InvalidTestRequest(
                "request.resource must have exactly one of cidr, namespace and service".to_owned(),
                "say where the job connects to, or is reached from",
            ));
        }
    };
    Ok(NetworkPeer {
        endpoint: Endpoint {
            peer,
            ports: ports.clone(),
        },
        namespace: namespace.clone().unwrap_or_else(|| own.to_owned()),
    })
}

fn parse_requester(context: &TestContext) -> Option<Requester> {
    context.requester.as_ref().map(|requester| Requester {
        user: requester.user.clone(),
        groups: requester.groups.iter().cloned().collect(),
    })
}

fn parse_job_attributes<'a>(
    context: &'a TestContext,
    requester: Option<&'a Requester>,
) -> JobAttributes<'a> {
    JobAttributes {
        job: context.job.as_deref().unwrap_or("test"),
        labels: &context.labels,
        requester,
        gpus: context.gpus.unwrap_or(0),
        pods: context.pods.unwrap_or(1),
        framework: context.framework.unwrap_or_default().spec().name,
        priority: context.priority.unwrap_or(0).into(),
        runtime_seconds: context.runtime_seconds,
        profile: context.profile.as_deref(),
        attempt: context.attempt.unwrap_or(1),
    }
}
