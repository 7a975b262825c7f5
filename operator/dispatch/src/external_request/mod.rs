//! Determines the request of one external gang's pods, their queue, and whether policies allow
//! them, by the same rules as for a job.

mod alike_pods;
pub mod limits;
pub mod queue;

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use trellis_api::pod_group::Plan;
use trellis_api::rules::MAX_IMAGE;
use trellis_api::{PodGroup, Reason};
use trellis_cache::Cache;
use trellis_gang::external::external_demand::ExternalDemand;
use trellis_gang::external::external_request::ExternalRequest;
use trellis_gang::key::Key;
use trellis_gang::observed::ExternalPod;
use trellis_gang::requirements::unsupported_requirement;
use trellis_gang::{GangExplanation, journal, lookup};
use trellis_policies::cedar::{
    AuthorizedExternalPods, ExternalPodsFacts, ExternalPodsQuery, NotAuthorized,
};

use crate::external_request::alike_pods::group_pods;
use crate::external_request::limits::find_limits;
use crate::external_request::queue::find_queue;

/// A pod with its spec.
pub(super) struct MemberPod<'a> {
    pub(super) name: &'a str,
    pub(super) pod: &'a ExternalPod,
    pub(super) spec: &'a PodSpec,
}

/// Role in which pods are placed.
#[derive(Clone, Copy, Debug)]
pub enum PlacementRole<'a> {
    /// As a gang of one, without a PodGroup.
    Alone,
    /// As the gang of this PodGroup.
    Gang(&'a PodGroup),
    /// As a further pod of a placed gang.
    Joining {
        /// Its PodGroup.
        group: &'a PodGroup,
        /// The plan of the gang's place.
        plan: &'a Plan,
        /// Total of the gang's present pods, so that joining pods cannot evade a limit.
        present_total: &'a ExternalDemand,
    },
}

impl<'a> PlacementRole<'a> {
    /// Returns the PodGroup that the pods name.
    #[must_use]
    pub const fn group(self) -> Option<&'a PodGroup> {
        match self {
            Self::Alone => None,
            Self::Gang(group) | Self::Joining { group, .. } => Some(group),
        }
    }
}

/// Decision of the policies on pods. None: not known yet.
pub type PodsVerdict = Option<Result<AuthorizedExternalPods, NotAuthorized>>;

/// Returns the joint request of these pods of one namespace. None: policies have not decided on
/// them yet. `judge` returns their decision.
///
/// # Errors
/// The reason why the pods wait or are refused.
pub(crate) fn find_request(
    cache: &Cache,
    namespace: &str,
    place: PlacementRole<'_>,
    pods: &[(String, Arc<ExternalPod>)],
    judge: impl FnOnce(ExternalPodsQuery) -> PodsVerdict,
) -> Result<Option<ExternalRequest>, GangExplanation> {
    let mut members = Vec::with_capacity(pods.len());
    for (name, pod) in pods {
        let spec = read_supported_spec(name, pod)?;
        members.push(MemberPod { name, pod, spec });
    }
    let Some(first) = members.first() else {
        let message = "there are no pods".to_owned();
        return Err(GangExplanation::waiting(Reason::MembersMissing, message));
    };
    let labels = cache.namespace_labels(namespace).ok_or_else(|| {
        let missing = lookup::unknown_namespace(namespace);
        GangExplanation::waiting(missing.reason, missing.message)
    })?;
    let group = place.group();
    let queue = find_queue(cache, &labels, place, pods)?;
    let queue_name = queue.metadata.name.clone().unwrap_or_default();
    let lowest = members.iter().map(|m| m.pod.priority).min().unwrap_or(0);
    let class = group.and_then(|g| g.spec.priority_class_name.as_deref());
    let found = match (place, class) {
        // The class of a joining pod may be missing: only its preemption policy is read.
        (PlacementRole::Joining { .. }, Some(class)) => {
            cache.priority_classes.get(&Key::new("", class))
        }
        (_, Some(class)) => Some(find_priority_class(cache, class)?),
        (_, None) => None,
    };
    let priority = match place {
        // The gang keeps the priority of its placement, even if the PodGroup has changed.
        PlacementRole::Joining { plan, .. } => plan.priority.unwrap_or(lowest),
        PlacementRole::Alone | PlacementRole::Gang(_) => found
            .as_ref()
            .map_or(lowest, |class| class.value.unwrap_or(0)),
    };
    let preempts = match &found {
        Some(class) => !lookup::never_preempts(class),
        // Admission has copied the policy from each pod's class.
        None => {
            let mut policies = members.iter().map(|m| m.spec.preemption_policy.as_deref());
            policies.all(|policy| policy != Some("Never"))
        }
    };
    let (groups, claims, one_node) = group_pods(cache, namespace, &labels, &members)?;
    let mut total = match place {
        PlacementRole::Joining {
            present_total: there,
            ..
        } => there.clone(),
        PlacementRole::Alone | PlacementRole::Gang(_) => ExternalDemand::default(),
    };
    members.iter().for_each(|member| total.add(member.pod));
    let active: Option<Vec<i64>> = members.iter().map(|m| m.pod.active_seconds).collect();
    let active_seconds = active.and_then(|all| all.into_iter().max());
    let name = group.map_or(first.name, |g| {
        g.metadata.name.as_deref().unwrap_or_default()
    });
    let own = group.map(|g| g.metadata.labels.clone().unwrap_or_default());
    let own = own.unwrap_or_else(|| first.pod.labels.clone());
    let asking = ExternalPodsFacts {
        namespace,
        namespace_labels: &labels,
        name,
        labels: &own,
        queue: &queue_name,
        queue_spec: &queue.spec,
        priority_class: class,
        priority,
        gpus: total.gpus,
        pods: total.pods,
        runtime_seconds: active_seconds,
    };
    let specs = members.iter().map(|m| m.spec);
    let Some(judged) = judge(ExternalPodsQuery::new(&asking, specs)) else {
        return Ok(None);
    };
    let allowed = judged.map_err(|not| GangExplanation {
        refused: not.reason() == Reason::PolicyDenied,
        ..GangExplanation::waiting(not.reason(), not.to_string())
    })?;
    let limits = find_limits(cache, &asking, &total)?;
    let joins = matches!(place, PlacementRole::Joining { .. });
    let limits = if joins {
        limits.for_joining_pods()
    } else {
        limits
    };
    let newest = members.iter().filter_map(|m| m.pod.created).max();
    let submitted = match place {
        PlacementRole::Alone => newest,
        PlacementRole::Gang(group) => {
            let created = group.metadata.creation_timestamp.as_ref();
            newest.max(created.map(|time| time.0))
        }
        // A pod that counted as older than its gang could preempt that gang.
        PlacementRole::Joining { plan, .. } => newest.max(journal::plan_start(plan)),
    };
    Ok(Some(ExternalRequest {
        queue: queue_name.clone(),
        priority,
        preempts,
        submitted: submitted.unwrap_or_default(),
        groups,
        one_node,
        claims,
        grace: members
            .iter()
            .map(|m| i64::from(m.pod.grace))
            .max()
            .unwrap_or(30),
        active_seconds,
        joins_gang: joins,
        authorization: allowed,
        judged_specs: members
            .iter()
            .map(|m| (m.name.to_owned(), m.pod.judged_spec))
            .collect(),
        limits: Arc::new(limits),
        accounts: total.service_accounts,
    }))
}

/// Returns the pod's spec, if every constraint in it is supported.
fn read_supported_spec<'a>(
    name: &str,
    pod: &'a ExternalPod,
) -> Result<&'a PodSpec, GangExplanation> {
    let unsupported = |requirement: String| {
        let message = format!(
            "pod {name:?} asks for {requirement}, which trellis does not evaluate: leave it out, or have another scheduler place the pod"
        );
        Err(GangExplanation::waiting(
            Reason::ConstraintNotSupported,
            message,
        ))
    };
    let spec = match &pod.spec {
        Some(Ok(spec)) => spec,
        Some(Err(error)) => return unsupported(format!("what cannot be read ({error})")),
        None => return unsupported("what has not been seen".to_owned()),
    };
    if let Some(claim) = spec.resource_claims.iter().flatten().next() {
        let message = format!(
            "pod {name:?} has the resource claim {:?}, and dynamic resource allocation is not done by trellis",
            claim.name
        );
        return Err(GangExplanation::waiting(
            Reason::NeedsDeviceAllocation,
            message,
        ));
    }
    if let Some(requirement) = unsupported_requirement::find_constraint(spec) {
        return unsupported(requirement);
    }
    match long_image(spec) {
        Some((field, length)) => Err(GangExplanation::refused(
            Reason::InvalidSpec,
            format!(
                "pod {name:?}: spec.{field} has {length} characters, and at most {MAX_IMAGE} are taken: use a shorter name"
            ),
        )),
        None => Ok(spec),
    }
}

/// Returns the first image reference that is longer than a job's may be, with its field and length.
/// Kubernetes sets no limit.
fn long_image(spec: &PodSpec) -> Option<(String, usize)> {
    let containers = spec.containers.iter().enumerate();
    let containers = containers.map(|(i, c)| (format!("containers[{i}].image"), &c.image));
    let inits = spec.init_containers.iter().flatten().enumerate();
    let inits = inits.map(|(i, c)| (format!("initContainers[{i}].image"), &c.image));
    let volumes = spec.volumes.iter().flatten().enumerate();
    let volumes = volumes.filter_map(|(i, volume)| {
        let image = volume.image.as_ref()?;
        Some((format!("volumes[{i}].image.reference"), &image.reference))
    });
    let mut lengths = containers
        .chain(inits)
        .chain(volumes)
        .filter_map(|(field, image)| Some((field, image.as_ref()?.chars().count())));
    lengths.find(|(_, length)| *length > MAX_IMAGE)
}

fn find_priority_class(cache: &Cache, class: &str) -> Result<Arc<PriorityClass>, GangExplanation> {
    let found = cache.priority_classes.get(&Key::new("", class));
    let missing = || {
        let message = format!(
            "spec.priorityClassName of the PodGroup: PriorityClass {class:?} does not exist: create it or name another"
        );
        GangExplanation::waiting(Reason::PriorityClassNotFound, message)
    };
    found.ok_or_else(missing)
}
