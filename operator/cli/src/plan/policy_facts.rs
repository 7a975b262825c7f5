//! Reads the facts that policies use from a cluster.
//! These are policies, queues, priority classes, and the namespaces and Services of jobs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ListParams;
use kube::{Api, Client};
use trellis_api::{
    ClusterJobPolicy, JobPolicy, PodGroup, RuntimeProfile, TrainingJob, TrainingQueue,
};
use trellis_gang::observed::SlimNamespace;
use trellis_policies::cedar::PolicyObject;

use super::snapshot::ClusterSnapshot;
use crate::cluster::{ApiFailure, get_optional, list};

/// Reads the facts that policies use for these jobs.
/// Returns notes about facts that the user might not expect.
pub(super) async fn read_facts(
    client: &Client,
    jobs: &[TrainingJob],
    snapshot: &mut ClusterSnapshot,
) -> Result<Vec<String>, ApiFailure> {
    let mut notes = Vec::new();
    let everything = ListParams::default();
    match list(&Api::<TrainingQueue>::all(client.clone()), &everything).await? {
        None => notes.push(
            "this cluster has no TrainingQueues, so Trellis is not installed: assumed the queue of a fresh install; `trellis crds | kubectl apply --server-side -f -` installs its kinds"
                .to_owned(),
        ),
        Some(queues) => {
            snapshot.queues = Some(Default::default());
            queues.into_iter().for_each(|q| snapshot.add_queue(q));
        }
    }
    read_policies(client, snapshot).await?;
    let profiles = list(&Api::<RuntimeProfile>::all(client.clone()), &everything).await?;
    for profile in profiles.unwrap_or_default() {
        snapshot.add_profile(profile);
    }
    for class in list(&Api::<PriorityClass>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.add_priority_class(class);
    }
    for namespace in namespaces_of(jobs) {
        match get_optional(&Api::<SlimNamespace>::all(client.clone()), namespace).await? {
            Some(found) => snapshot.add_namespace(found),
            None => notes.push(format!(
                "namespace {namespace:?} does not exist: assumed a namespace without labels"
            )),
        }
    }
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        for service in service_names(job) {
            let api: Api<Service> = Api::namespaced(client.clone(), namespace);
            if let Some(service) = get_optional(&api, service).await? {
                snapshot.add_service(service);
            }
        }
    }
    Ok(notes)
}

/// Lists all TrainingJobs.
pub(super) async fn list_jobs(client: &Client) -> Result<Vec<TrainingJob>, ApiFailure> {
    let api = Api::<TrainingJob>::all(client.clone());
    let jobs = list(&api, &ListParams::default()).await?;
    Ok(jobs.unwrap_or_default())
}

/// Lists all PodGroups, which contain the placements of the gangs.
pub(super) async fn list_pod_groups(client: &Client) -> Result<Vec<PodGroup>, ApiFailure> {
    let api = Api::<PodGroup>::all(client.clone());
    let groups = list(&api, &ListParams::default()).await?;
    Ok(groups.unwrap_or_default())
}

/// Gets these jobs from the cluster. Jobs that do not exist there are left out.
pub(super) async fn get_named_jobs(
    client: &Client,
    jobs: &[TrainingJob],
) -> Result<Vec<TrainingJob>, ApiFailure> {
    let mut found = Vec::new();
    for job in jobs {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let api = Api::<TrainingJob>::namespaced(client.clone(), &part(&job.metadata.namespace));
        found.extend(get_optional(&api, &part(&job.metadata.name)).await?);
    }
    Ok(found)
}

/// The namespaces of jobs.
pub(super) fn namespaces_of(jobs: &[TrainingJob]) -> BTreeSet<&str> {
    let named = jobs.iter().map(|j| j.metadata.namespace.as_deref());
    named.flatten().collect()
}

/// Reads the policies.
/// A cluster that has these kinds but no policy permits nothing.
async fn read_policies(client: &Client, snapshot: &mut ClusterSnapshot) -> Result<(), ApiFailure> {
    let everything = ListParams::default();
    let of_cluster = Api::<ClusterJobPolicy>::all(client.clone());
    if let Some(objects) = list(&of_cluster, &everything).await? {
        snapshot.policies.mark_complete();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.add(object));
    }
    let of_namespaces = Api::<JobPolicy>::all(client.clone());
    if let Some(objects) = list(&of_namespaces, &everything).await? {
        snapshot.policies.mark_complete();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.add(object));
    }
    Ok(())
}

/// The Services that a job refers to.
fn service_names(job: &TrainingJob) -> BTreeSet<&str> {
    let network = job.spec.network.iter();
    network
        .flat_map(|n| n.egress.iter().chain(&n.ingress))
        .filter_map(|rule| rule.service.as_deref())
        .collect()
}
