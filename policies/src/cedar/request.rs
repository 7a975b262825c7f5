//! The requests that tests make, as policies are asked.

use trellis_api::job_policy::{TestAction, TestContext, TestRequest, TestResource, TestVolumeKind};
use trellis_compiler::{Endpoint, Peer, RemoteSecret};

use super::ask::{Ask, Far, Object, Remote, VolumeKind};
use super::decision::Decision;
use super::problem::Problem;
use super::set::Policies;
use super::subject::{About, Requester, Subject};

/// A request that asks for something.
pub(super) struct Posed<'a> {
    request: &'a TestRequest,
    context: TestContext,
    requester: Option<Requester>,
    pub(super) ask: Ask,
}

/// A request that cannot be built: the violated rule and the fix.
pub(super) struct Unposed(String, &'static str);

impl Unposed {
    /// The problem at a field.
    pub(super) fn at(self, path: &str) -> Problem {
        Problem::new(path, self.0, self.1)
    }
}

impl<'a> Posed<'a> {
    pub(super) fn new(request: &'a TestRequest) -> Result<Self, Unposed> {
        let resource = request.resource.clone().unwrap_or_default();
        let context = request.context.clone().unwrap_or_default();
        Ok(Self {
            request,
            requester: requester(&context),
            context,
            ask: ask(&request.namespace, request.action, &resource)?,
        })
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            namespace: &self.request.namespace,
            labels: &self.request.namespace_labels,
        }
    }

    pub(super) fn about(&self) -> About<'_> {
        about(&self.context, self.requester.as_ref())
    }
}

impl Policies {
    /// Decides the request of a test.
    ///
    /// # Errors
    /// If the request does not name its resource completely.
    pub fn answer(&self, request: &TestRequest) -> Result<Decision, Problem> {
        let posed = Posed::new(request).map_err(|unposed| unposed.at("request"))?;
        let decided = self.decide(&posed.subject(), &posed.about(), [&posed.ask]);
        let nothing = || Problem::new("request", "is not decided", "report it");
        decided.into_iter().next().ok_or_else(nothing)
    }
}

/// The question that a test asks. The action determines which fields of the resource it needs.
fn ask(namespace: &str, action: TestAction, resource: &TestResource) -> Result<Ask, Unposed> {
    let name = || {
        let missing = "request.resource.name is missing";
        let missing = || Unposed(missing.to_owned(), "name what is asked for");
        resource.name.clone().ok_or_else(missing)
    };
    let object = || -> Result<Object, Unposed> {
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
        TestAction::UseSecret => match &resource.store {
            None => Ask::UseSecret(object()?),
            Some(store) => Ask::UseRemoteSecret(Remote {
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
            Ask::UseVolume(kind, object()?)
        }
        TestAction::ConnectTo => Ask::ConnectTo(far()?),
        TestAction::AcceptFrom => Ask::AcceptFrom(far()?),
        TestAction::UsePrivilege => Ask::UsePrivilege(name()?),
    })
}

fn far(own: &str, resource: &TestResource) -> Result<Far, Unposed> {
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
            return Err(Unposed(
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
        profile: context.profile.as_deref(),
        attempt: context.attempt.unwrap_or(1),
    }
}
