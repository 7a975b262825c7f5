//! Names, labels and owner of everything that a job becomes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use trellis_api::{GROUP, VERSION, ValidatedJob, names};

/// Metadata of a child: the job's labels, and the job as its controlling owner.
///
/// Labels and annotations of the TrainingJob itself are not copied: Argo CD's
/// tracking id on a child would have it pruned.
pub(crate) fn child_metadata(job: &ValidatedJob) -> ObjectMeta {
    ObjectMeta {
        name: Some(job.name().to_owned()),
        namespace: Some(job.namespace().to_owned()),
        labels: Some(child_labels(job)),
        owner_references: Some(vec![owner_reference(job)]),
        ..ObjectMeta::default()
    }
}

/// Labels of every child.
pub(crate) fn child_labels(job: &ValidatedJob) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::MANAGED_BY.to_owned(), names::MANAGER.to_owned()),
        (names::JOB.to_owned(), job.name().to_owned()),
        (names::JOB_UID.to_owned(), job.uid().to_owned()),
    ])
}

/// Label that only the job's own pods have: a later job may have the same name, but not the same
/// uid.
pub(crate) fn job_uid_label(job: &ValidatedJob) -> BTreeMap<String, String> {
    BTreeMap::from([(names::JOB_UID.to_owned(), job.uid().to_owned())])
}

/// A selector by labels alone.
pub(crate) fn label_selector(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        match_expressions: None,
    }
}

fn owner_reference(job: &ValidatedJob) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: "TrainingJob".to_owned(),
        name: job.name().to_owned(),
        uid: job.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
