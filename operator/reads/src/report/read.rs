//! Reads all data about a job, with the rights of the user.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta};
use kube::{Api, Client};
use trellis_api::job::CompiledObject;
use trellis_api::{TrainingJob, names};

use super::{ChildState, ObjectLine, ReadErrorLine, StatusReport};
use crate::events;
use crate::pods::{PodLine, find_missing};
use crate::{ApiFailure, ReadError, Reader, list};

/// Reads the report of one job. Returns None if the job does not exist.
///
/// # Errors
/// If the job itself cannot be read . The report contains other failed reads.
pub async fn read_report(reader: &Reader, name: &str) -> Result<Option<StatusReport>, ReadError> {
    let Some(mut job) = reader.get_job(name).await? else {
        return Ok(None);
    };
    job.metadata.managed_fields = None;
    let (pods, events, objects) = futures::join!(
        list_pods(reader, &job),
        events::list_events(reader, "TrainingJob", &job.metadata),
        check_objects(reader, &job)
    );
    let mut unread = Vec::new();
    let mut report_failure = |what: &'static str, error: ApiFailure| {
        let reason = reader
            .explain_core(error, &format!("list {what}"))
            .to_string();
        unread.push(ReadErrorLine { what, why: reason });
    };
    let events = events.unwrap_or_else(|error| {
        report_failure("events.events.k8s.io", error);
        Vec::new()
    });
    let (pods, missing) = match pods {
        Ok(pods) => {
            let pods = to_pod_lines(&pods);
            let missing = find_missing(&job, &pods);
            (pods, missing)
        }
        Err(error) => {
            report_failure("pods", error);
            (Vec::new(), Vec::new())
        }
    };
    Ok(Some(StatusReport {
        job,
        objects,
        pods,
        missing,
        events,
        unread,
    }))
}

/// Selects the pods of a job by its uid.
/// Pods of an earlier job with the same name do not match.
#[must_use]
pub fn pods_of_job(job: &TrainingJob) -> ListParams {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    ListParams::default().labels(&format!("{}={uid}", names::JOB_UID))
}

async fn list_pods(reader: &Reader, job: &TrainingJob) -> Result<Vec<Pod>, ApiFailure> {
    let pods: Api<Pod> = Api::namespaced(reader.client.clone(), &reader.namespace);
    let pods = list(&pods, &pods_of_job(job)).await?;
    Ok(pods.unwrap_or_default())
}

/// Sorts the pods by attempt and rank.
fn to_pod_lines(pods: &[Pod]) -> Vec<PodLine> {
    let mut lines: Vec<_> = pods.iter().filter_map(PodLine::from_pod).collect();
    lines.sort_by(|a, b| {
        let key = |pod: &PodLine| (pod.attempt, pod.rank.unwrap_or(u32::MAX), pod.index);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    lines
}

async fn check_objects(reader: &Reader, job: &TrainingJob) -> Vec<ObjectLine> {
    let status = job.status.as_ref();
    let compiled = status.map(|status| status.compiled.as_slice());
    // The list has one entry of pods per task group. The report shows pods one by one.
    let children = compiled.unwrap_or_default().iter();
    let children = children.filter(|child| child.kind != "Pod");
    let (client, namespace) = (&reader.client, reader.namespace.as_str());
    futures::future::join_all(children.map(|child| check_object(client, namespace, job, child)))
        .await
}

/// Checks one child.
pub(super) async fn check_object(
    client: &Client,
    namespace: &str,
    job: &TrainingJob,
    child: &CompiledObject,
) -> ObjectLine {
    let (group, version) = child
        .api_version
        .split_once('/')
        .unwrap_or(("", child.api_version.as_str()));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &child.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    // Only the metadata is read: the check does not need the content of a Secret.
    let (state, note) = match api.get_metadata(&child.name).await {
        Ok(found) if is_controlled_by(&found.metadata, job) => {
            match found.metadata.deletion_timestamp {
                Some(_) => (ChildState::There, Some("is being deleted".to_owned())),
                None => (ChildState::There, None),
            }
        }
        Ok(_) => (
            ChildState::NotOurs,
            Some(
                "another object has its name: rename or delete that, or rename the job".to_owned(),
            ),
        ),
        Err(kube::Error::Api(status)) => match status.code {
            404 => (ChildState::Missing, None),
            401 | 403 => (ChildState::Forbidden, None),
            _ => (ChildState::Unread, Some(status.message.clone())),
        },
        Err(error) => (ChildState::Unread, Some(error.to_string())),
    };
    ObjectLine {
        api_version: child.api_version.clone(),
        kind: child.kind.clone(),
        name: child.name.clone(),
        state,
        problem: child.problem.clone().or(note),
    }
}

/// Returns true if the job is the controlling owner.
/// Another object may have the same name.
fn is_controlled_by(meta: &ObjectMeta, job: &TrainingJob) -> bool {
    let owners = meta.owner_references.iter().flatten();
    let mut uids = owners.filter(|owner| owner.controller == Some(true));
    uids.any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
}
