//! What admission would make of a gang's pods, asked before anything is
//! promised: one pod a group is created with server-side dry run, on its
//! candidate node and under the name that it will bear.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use trellis_api::job::Framework;
use trellis_api::names;
use trellis_api::rules::is_reserved_env;
use trellis_compiler::{CompiledGroup, PodPlacement};

use super::admitted::{Admitted, OF_ONE_POD};
use crate::commands::{Commands, WriteError};

/// How long an answer holds: admission's configuration may change meanwhile.
const FRESH: Duration = Duration::from_secs(30);
/// Answers that are kept.
const MOST: usize = 4096;

/// Answers of admission, by what does not differ between jobs.
#[derive(Debug, Default)]
pub struct Preflight {
    answers: Mutex<HashMap<String, (Instant, Admitted)>>,
}

impl Preflight {
    /// What one pod of the group asks of its node once admission has had its say.
    ///
    /// # Errors
    /// `Refused` if admission refuses the pod.
    pub async fn ask(
        &self,
        commands: &Commands,
        namespace: &str,
        group: &CompiledGroup,
        placement: &PodPlacement<'_>,
    ) -> Result<Admitted, WriteError> {
        let pod = group.pod(0, placement);
        let key = signature(namespace, &pod);
        let known = self.answers.lock().get(&key).cloned();
        if let Some((at, answer)) = known
            && at.elapsed() < FRESH
        {
            return Ok(answer);
        }
        let stored: serde_json::Value = commands
            .create(namespace, names::SCHEDULER_MANAGER, &pod, true)
            .await?;
        let answer = Admitted::of(stored)
            .map_err(|error| WriteError::Transient(format!("the answer is no pod: {error}")))?;
        let mut answers = self.answers.lock();
        if answers.len() >= MOST {
            answers.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        answers.insert(key, (Instant::now(), answer.clone()));
        Ok(answer)
    }
}

/// A hash of the pod without what names it: jobs that differ only in their
/// name share an answer. The node stays out of it as well, or every gang on
/// nodes of its own would be asked for: a policy against a node speaks when
/// the pod is created, and then the gang is undone.
fn signature(namespace: &str, pod: &Pod) -> String {
    let mut bare = pod.clone();
    bare.metadata.name = None;
    bare.metadata.owner_references = None;
    if let Some(labels) = &mut bare.metadata.labels {
        for label in OF_ONE_POD {
            labels.remove(label);
        }
    }
    if let Some(annotations) = &mut bare.metadata.annotations {
        annotations.remove(names::PLAN);
    }
    if let Some(spec) = &mut bare.spec {
        spec.hostname = None;
        spec.subdomain = None;
        spec.node_name = None;
        for container in &mut spec.containers {
            // What is injected names the job, in addresses too.
            if let Some(env) = &mut container.env {
                env.retain(|v| !is_reserved_env(&v.name, Framework::PyTorch));
            }
        }
    }
    let json = serde_json::to_value(&bare).unwrap_or_default();
    trellis_compiler::hash_of(&serde_json::json!([namespace, json]))
}
