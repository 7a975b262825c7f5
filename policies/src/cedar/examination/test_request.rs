//! The requests that tests make, as policies are asked.

use trellis_api::job_policy::{TestContext, TestRequest};

use crate::cedar::request::{
    InvalidTestRequest, JobAttributes, PolicyRequest, Requester, RequestingNamespace,
};

/// The request of a test, with the facts about its job.
pub(crate) struct ParsedTestRequest<'a> {
    request: &'a TestRequest,
    context: TestContext,
    requester: Option<Requester>,
    pub(crate) policy_request: PolicyRequest,
}

impl<'a> ParsedTestRequest<'a> {
    pub(crate) fn new(request: &'a TestRequest) -> Result<Self, InvalidTestRequest> {
        let resource = request.resource.clone().unwrap_or_default();
        let context = request.context.clone().unwrap_or_default();
        Ok(Self {
            request,
            requester: parse_requester(&context),
            context,
            policy_request: PolicyRequest::from_test(
                &request.namespace,
                request.action,
                &resource,
            )?,
        })
    }

    pub(crate) fn subject(&self) -> RequestingNamespace<'_> {
        RequestingNamespace {
            namespace: &self.request.namespace,
            labels: &self.request.namespace_labels,
        }
    }

    pub(crate) fn job_attributes(&self) -> JobAttributes<'_> {
        parse_job_attributes(&self.context, self.requester.as_ref())
    }
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
