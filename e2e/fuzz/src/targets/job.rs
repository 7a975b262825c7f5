//! Jobs, from the file to the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use trellis_api::{Quantity, QueueResources, ResolvedJob, TrainingJob, ValidatedJob};
use trellis_compiler::{CompileContext, CompileFacts, CompiledJob, PodPlacement, compile};
use trellis_policies::{privileges, unlisted_fields};

use super::{DOCUMENT_WORDS, decode, readable_documents};
use crate::Target;

/// The target. A job that is accepted compiles to pods that Kubernetes accepts and policies know.
pub const TARGET: Target = Target {
    check,
    words: DOCUMENT_WORDS,
    inputs_per_case: 16,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    for document in readable_documents(text) {
        if document.kind == "TrainingJob"
            && let Some(job) = decode::<TrainingJob>(&document, text)
        {
            check_job(job);
        }
    }
}

fn check_job(job: TrainingJob) {
    let job = ValidatedJob::try_from(job).expect("the document was checked by the same rules");
    let Some(compiled) = compile_job(job.clone()) else {
        return;
    };
    let again = compile_job(job).expect("the same job compiles again");
    assert_eq!(
        compiled.hash(),
        again.hash(),
        "the same job has the same hash"
    );
    let mut names = BTreeSet::new();
    for group in compiled.groups() {
        for index in [0, group.replicas().saturating_sub(1)] {
            let pod = group.pod(index, &PodPlacement::UNPLACED);
            let name = pod.metadata.name.clone().unwrap_or_default();
            assert_eq!(name, group.pod_name(index));
            assert!(
                !name.is_empty() && name.len() <= 63,
                "{name:?} is a hostname"
            );
            assert!(names.insert(name) || index == 0, "two pods have one name");
            check_pod(&pod);
        }
    }
}

fn compile_job(job: ValidatedJob) -> Option<CompiledJob> {
    let job = ResolvedJob::new(job, None, "default", QueueResources::default()).ok()?;
    let facts = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &BTreeMap::new(),
    };
    let context = CompileContext::resolve(job.job(), facts).ok()?;
    Some(compile(job, context, &Arc::default()))
}

fn check_pod(pod: &Pod) {
    let spec = pod.spec.as_ref().expect("a pod has a spec");
    // Rules refuse what policies cannot see.
    for field in unlisted_fields(pod) {
        assert!(
            !field.path.is_empty() && !field.remedy.is_empty(),
            "{field:?}"
        );
    }
    let _ = privileges(pod);
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    for resources in containers.filter_map(|container| container.resources.as_ref()) {
        let amounts = resources.limits.iter().chain(&resources.requests).flatten();
        for (resource, quantity) in amounts {
            let amount = Quantity::new(quantity.0.as_str()).amount();
            assert!(amount.is_ok(), "{resource}: {quantity:?} {amount:?}");
        }
    }
    let secrets = spec
        .image_pull_secrets
        .iter()
        .flatten()
        .map(|secret| &secret.name);
    let secrets: Vec<_> = secrets.collect();
    let different: BTreeSet<_> = secrets.iter().collect();
    assert_eq!(
        secrets.len(),
        different.len(),
        "Kubernetes merges pull secrets by name"
    );
}
