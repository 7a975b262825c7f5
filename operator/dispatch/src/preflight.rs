//! Finds out how admission changes a gang's pods, before the engine promises anything. It creates
//! one pod of each group with a server-side dry run, on its candidate node and with its final name.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use trellis_api::names;
use trellis_api::pod_template::MAIN_CONTAINER;
use trellis_api::rules::is_trellis_env;
use trellis_compiler::{CompiledGroup, PodPlacement};
use trellis_gang::admitted_pod::{AdmittedPod, POD_IDENTITY_LABELS};

use crate::commands::{Commands, WriteError};

/// How long an answer is used. The configuration of admission may change.
const ANSWER_TTL: Duration = Duration::from_secs(30);
/// Most answers to keep.
const MAX_ANSWERS: usize = 4096;
/// Most dry runs of one namespace in flight. If the namespace's webhooks hang, each dry run holds a
/// write permit, and its gang holds a place, until the webhook's timeout.
const MAX_DRY_RUNS_PER_NAMESPACE: usize = 4;
/// Most namespaces without a dry run to keep.
const MAX_IDLE_NAMESPACES: usize = 1024;

/// Answers of admission, by the part of a pod that does not differ between jobs.
#[derive(Debug, Default)]
pub struct Preflight {
    answers: Mutex<HashMap<String, (Instant, AdmittedPod)>>,
    queues: Mutex<HashMap<String, Arc<DryRunQueue>>>,
}

/// Queue for the dry runs of one namespace.
#[derive(Debug)]
struct DryRunQueue {
    permits: Semaphore,
    /// When its webhooks last failed to answer, and the error.
    last_failure: Mutex<Option<(Instant, String)>>,
}

impl Default for DryRunQueue {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(MAX_DRY_RUNS_PER_NAMESPACE),
            last_failure: Mutex::default(),
        }
    }
}

impl DryRunQueue {
    /// Runs the dry run when its turn comes. If another dry run fails before that, this one fails
    /// at once. Otherwise it would fail later, and hold its gang's place for longer.
    async fn run<T>(
        &self,
        question: impl Future<Output = Result<T, WriteError>>,
    ) -> Result<T, WriteError> {
        let since = Instant::now();
        // The semaphore is never closed.
        let _turn = self.permits.acquire().await;
        let failed = self.last_failure.lock().clone();
        if let Some((_, message)) = failed.filter(|(at, _)| *at > since) {
            return Err(WriteError::Webhook(message));
        }
        let answer = question.await;
        let message = match &answer {
            Err(WriteError::Webhook(message) | WriteError::Unanswered(message)) => message,
            _ => return answer,
        };
        *self.last_failure.lock() = Some((Instant::now(), message.clone()));
        answer
    }
}

impl Preflight {
    /// Returns the request of one pod of the group after admission.
    ///
    /// # Errors
    /// `Refused` if admission refuses the pod.
    pub async fn dry_run(
        &self,
        commands: &Commands,
        namespace: &str,
        group: &CompiledGroup,
        placement: &PodPlacement<'_>,
    ) -> Result<AdmittedPod, WriteError> {
        let pod = group.pod(0, placement);
        let key = signature(namespace, &pod, &group.framework_variables());
        if let Some(answer) = self.cached_answer(&key) {
            return Ok(answer);
        }
        let line = self.queue_for(namespace);
        let stored: serde_json::Value = line
            .run(commands.create(namespace, names::SCHEDULER_MANAGER, &pod, true))
            .await?;
        let answer = AdmittedPod::from_stored(stored)
            .map_err(|error| WriteError::Transient(format!("the answer is no pod: {error}")))?;
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, (at, _)| at.elapsed() < ANSWER_TTL);
        }
        answers.insert(key, (Instant::now(), answer.clone()));
        Ok(answer)
    }

    fn cached_answer(&self, key: &str) -> Option<AdmittedPod> {
        let answers = self.answers.lock();
        let (at, answer) = answers.get(key)?;
        (at.elapsed() < ANSWER_TTL).then(|| answer.clone())
    }

    fn queue_for(&self, namespace: &str) -> Arc<DryRunQueue> {
        let mut lines = self.queues.lock();
        if lines.len() >= MAX_IDLE_NAMESPACES {
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        lines.entry(namespace.to_owned()).or_default().clone()
    }
}

/// Returns the hash of the pod without its name, so that jobs that differ only in their name share
/// an answer. It leaves out the environment variables that Trellis and the job's own framework set.
/// Variables of another framework are the user's, and admission may judge them. It also leaves out
/// the node, because otherwise each gang would need a dry run for its own nodes. If a policy
/// forbids a node, it refuses the real pod, and the gang rolls back.
fn signature(namespace: &str, pod: &Pod, of_framework: &BTreeSet<String>) -> String {
    let mut bare = pod.clone();
    bare.metadata.name = None;
    bare.metadata.owner_references = None;
    if let Some(labels) = &mut bare.metadata.labels {
        for label in POD_IDENTITY_LABELS {
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
            let is_main = container.name == MAIN_CONTAINER;
            // Injected variables name the job, in addresses too.
            if let Some(env) = &mut container.env {
                let is_ours = |name: &String| {
                    is_trellis_env(name) || (is_main && of_framework.contains(name))
                };
                env.retain(|v| !is_ours(&v.name));
            }
        }
    }
    let json = serde_json::to_value(&bare).unwrap_or_default();
    trellis_compiler::hash_of(&serde_json::json!([namespace, json]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_gang::fixtures;

    use super::*;

    /// Returns the signature of a job with this framework and name.
    fn signature_of_job(framework: &str, group: Value, job: &str) -> String {
        let mut spec = fixtures::spec_with(json!({"framework": framework}));
        let group_fields = spec["taskGroups"][0].as_object_mut().unwrap();
        group_fields.extend(group.as_object().unwrap().clone());
        let compiled = fixtures::compile_job(spec);
        let group = &compiled.groups()[0];
        let mut pod = group.pod(0, &PodPlacement::UNPLACED);
        // The variables contain the name of the job.
        for container in &mut pod.spec.as_mut().unwrap().containers {
            for variable in container.env.iter_mut().flatten() {
                variable.value = variable.value.take().map(|v| v.replace("llm", job));
            }
        }
        signature("team-a", &pod, &group.framework_variables())
    }

    #[test]
    fn signature_omits_variables_set_by_the_framework_of_the_job() {
        let no_fields = || json!({});
        for framework in ["PyTorch", "JAX", "None"] {
            let (job_a, job_b) = (
                signature_of_job(framework, no_fields(), "a"),
                signature_of_job(framework, no_fields(), "b"),
            );
            assert_eq!(job_a, job_b, "{framework}");
        }
        // An admission policy of the cluster may refuse a variable that the user sets.
        let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
        for (framework, name) in [
            ("None", "NVIDIA_VISIBLE_DEVICES"),
            ("PyTorch", "NVIDIA_VISIBLE_DEVICES"),
            ("JAX", "MASTER_ADDR"),
        ] {
            let signature_with = |value: &str| signature_of_job(framework, env(name, value), "a");
            assert_ne!(
                signature_with("all"),
                signature_with("none"),
                "{framework} {name}"
            );
        }
        // Variables of the other containers always come from the template.
        let signature_with_sidecar = |value: &str| {
            let template = json!({"spec": {"containers": [{"name": "s", "image": "i",
                "env": [{"name": "RANK", "value": value}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}});
            signature_of_job("PyTorch", json!({"podTemplate": template}), "a")
        };
        assert_ne!(signature_with_sidecar("1"), signature_with_sidecar("2"));
    }

    /// A hanging webhook receives few pods, and the other pods fail without waiting for it.
    #[tokio::test(start_paused = true)]
    async fn waiting_dry_runs_fail_when_the_webhook_hangs() {
        let queue = DryRunQueue::default();
        let start = Instant::now();
        let requests = Mutex::new(0_usize);
        let run_hanging = || async {
            let dry_run = async {
                *requests.lock() += 1;
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err::<(), _>(WriteError::Webhook("the webhook hangs".to_owned()))
            };
            let error = queue.run(dry_run).await.unwrap_err();
            assert_eq!(error.to_string(), "the webhook hangs");
            assert!(matches!(error, WriteError::Webhook(_)));
        };
        futures::future::join_all((0..20).map(|_| run_hanging())).await;
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert_eq!(*requests.lock(), MAX_DRY_RUNS_PER_NAMESPACE);
        // The next dry run is sent alone.
        run_hanging().await;
        assert_eq!(*requests.lock(), MAX_DRY_RUNS_PER_NAMESPACE + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn answered_dry_run_does_not_fail_the_waiting_dry_runs() {
        let queue = DryRunQueue::default();
        let answers = (0..20).map(|number| {
            let queue = &queue;
            async move {
                let dry_run = async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    match number % 2 {
                        0 => Ok(()),
                        _ => Err(WriteError::Exhausted(String::new())),
                    }
                };
                queue.run(dry_run).await
            }
        });
        let answers = futures::future::join_all(answers).await;
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 10);
        let exhausted = |a: &Result<(), _>| matches!(a, Err(WriteError::Exhausted(_)));
        assert_eq!(answers.iter().filter(|a| exhausted(a)).count(), 10);
    }
}
