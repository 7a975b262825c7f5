//! What policies decide by, read from a cluster: policies, queues, priority
//! classes, and the namespaces and Services of jobs.

use std::collections::BTreeSet;

use crate::cluster::{Unread, list, named};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ListParams;
use kube::{Api, Client};
use trellis_api::{
    ClusterJobPolicy, JobPolicy, PodGroup, RuntimeProfile, TrainingJob, TrainingQueue,
};
use trellis_gang::observed::SlimNamespace;
use trellis_policies::cedar::PolicyObject;

use super::snapshot::Snapshot;

/// Reads what policies decide about these jobs by. Gives what the user might not expect.
pub(super) async fn read(
    client: &Client,
    jobs: &[TrainingJob],
    snapshot: &mut Snapshot,
) -> Result<Vec<String>, Unread> {
    let mut notes = Vec::new();
    let everything = ListParams::default();
    match list(&Api::<TrainingQueue>::all(client.clone()), &everything).await? {
        None => notes.push(
            "this cluster has no TrainingQueues, so Trellis is not installed: done with the queue of a fresh install; `trellis crds | kubectl apply --server-side -f -` installs its kinds"
                .to_owned(),
        ),
        Some(queues) => {
            snapshot.queues = Some(Default::default());
            queues.into_iter().for_each(|q| snapshot.queue(q));
        }
    }
    read_policies(client, snapshot).await?;
    let profiles = list(&Api::<RuntimeProfile>::all(client.clone()), &everything).await?;
    for profile in profiles.unwrap_or_default() {
        snapshot.profile(profile);
    }
    for class in list(&Api::<PriorityClass>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.priority_class(class);
    }
    for namespace in namespaces(jobs) {
        match named(&Api::<SlimNamespace>::all(client.clone()), namespace).await? {
            Some(found) => snapshot.namespace(found),
            None => notes.push(format!(
                "namespace {namespace:?} does not exist: done as if it did, without labels"
            )),
        }
    }
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        for service in services(job) {
            let api: Api<Service> = Api::namespaced(client.clone(), namespace);
            if let Some(service) = named(&api, service).await? {
                snapshot.service(service);
            }
        }
    }
    Ok(notes)
}

/// Every TrainingJob.
pub(super) async fn jobs(client: &Client) -> Result<Vec<TrainingJob>, Unread> {
    let api = Api::<TrainingJob>::all(client.clone());
    let jobs = list(&api, &ListParams::default()).await?;
    Ok(jobs.unwrap_or_default())
}

/// Every PodGroup: which gangs have a place, and what of.
pub(super) async fn pod_groups(client: &Client) -> Result<Vec<PodGroup>, Unread> {
    let api = Api::<PodGroup>::all(client.clone());
    let groups = list(&api, &ListParams::default()).await?;
    Ok(groups.unwrap_or_default())
}

/// Those of the jobs that are there, as they are there.
pub(super) async fn of_names(
    client: &Client,
    jobs: &[TrainingJob],
) -> Result<Vec<TrainingJob>, Unread> {
    let mut found = Vec::new();
    for job in jobs {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let api = Api::<TrainingJob>::namespaced(client.clone(), &part(&job.metadata.namespace));
        found.extend(named(&api, &part(&job.metadata.name)).await?);
    }
    Ok(found)
}

/// The namespaces of jobs.
pub(super) fn namespaces(jobs: &[TrainingJob]) -> BTreeSet<&str> {
    let named = jobs.iter().map(|j| j.metadata.namespace.as_deref());
    named.flatten().collect()
}

/// Who may run what. A cluster that knows the kinds and has no policy permits nothing.
async fn read_policies(client: &Client, snapshot: &mut Snapshot) -> Result<(), Unread> {
    let everything = ListParams::default();
    let of_cluster = Api::<ClusterJobPolicy>::all(client.clone());
    if let Some(objects) = list(&of_cluster, &everything).await? {
        snapshot.policies.are_all();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.take(object));
    }
    let of_namespaces = Api::<JobPolicy>::all(client.clone());
    if let Some(objects) = list(&of_namespaces, &everything).await? {
        snapshot.policies.are_all();
        let objects = objects.iter().map(PolicyObject::from);
        objects.for_each(|object| snapshot.policies.take(object));
    }
    Ok(())
}

/// The Services that a job names.
fn services(job: &TrainingJob) -> BTreeSet<&str> {
    let network = job.spec.network.iter();
    network
        .flat_map(|n| n.egress.iter().chain(&n.ingress))
        .filter_map(|rule| rule.service.as_deref())
        .collect()
}
