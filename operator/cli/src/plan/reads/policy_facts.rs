//! Reads the facts that policies use from a cluster.
//! These are policies, queues, priority classes, and the namespaces and Services of jobs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client};
use trellis_api::{ClusterJobPolicy, JobPolicy, RuntimeProfile, TrainingJob, TrainingQueue};
use trellis_gang::lookup;
use trellis_gang::observed::SlimNamespace;
use trellis_reads::{ApiFailure, get_optional};

use super::object_reads::read_all;
use crate::files::job::namespaces_of;
use crate::plan::snapshot::ClusterSnapshot;

/// Reads the facts that policies use for these jobs.
/// Returns notes about facts that the user might not expect.
pub(super) async fn read_facts(
    client: &Client,
    jobs: &[TrainingJob],
    snapshot: &mut ClusterSnapshot,
) -> Result<Vec<String>, ApiFailure> {
    let mut notes = Vec::new();
    if read_all::<TrainingQueue>(client, snapshot).await? {
        snapshot.queues.get_or_insert_default();
    } else {
        notes.push(
            "this cluster has no TrainingQueues, so Trellis is not installed: assumed the queue of a fresh install; `trellis crds | kubectl apply --server-side -f -` installs its kinds"
                .to_owned(),
        );
    }
    // A cluster that has these kinds but no policy permits nothing.
    if read_all::<ClusterJobPolicy>(client, snapshot).await? {
        snapshot.policies.mark_complete();
    }
    if read_all::<JobPolicy>(client, snapshot).await? {
        snapshot.policies.mark_complete();
    }
    read_all::<RuntimeProfile>(client, snapshot).await?;
    read_all::<PriorityClass>(client, snapshot).await?;
    for namespace in namespaces_of(jobs) {
        match get_optional(&Api::<SlimNamespace>::all(client.clone()), namespace).await? {
            Some(found) => snapshot.add(found),
            None => notes.push(format!(
                "namespace {namespace:?} does not exist: assumed a namespace without labels"
            )),
        }
    }
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let services: BTreeSet<&str> = lookup::network_rule_services(&job.spec).collect();
        for service in services {
            let api: Api<Service> = Api::namespaced(client.clone(), namespace);
            if let Some(service) = get_optional(&api, service).await? {
                snapshot.add(service);
            }
        }
    }
    Ok(notes)
}
