//! Tells the simulated kubelets how long the pods of a script run, how they end, and how long they
//! take to stop.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;
use trellis_api::names;
use trellis_e2e::kubelet;
use trellis_simulation::{JobScript, RandomSequence, Script};

use crate::site::Site;

const INTERVAL: Duration = Duration::from_secs(1);

impl Site {
    /// Instructs the kubelets until the future is dropped.
    pub(crate) async fn instruct_kubelets(&self) -> Result<()> {
        let mut random = RandomSequence::new(self.script.seed, "soak kubelets");
        loop {
            let pods = self
                .api::<Pod>()
                .list(&ListParams::default().match_any())
                .await?;
            for pod in &pods.items {
                if let Some((key, value)) =
                    instruction(pod, &self.script, &mut random, Timestamp::now())
                {
                    let patch =
                        json!({"metadata": {"uid": pod.uid(), "annotations": {key: value}}});
                    let params = PatchParams::default();
                    let patched = self
                        .api::<Pod>()
                        .patch(&pod.name_any(), &params, &Patch::Merge(patch))
                        .await;
                    ignore_missing(patched)?;
                }
            }
            sleep(INTERVAL).await;
        }
    }
}

/// A pod may have gone since it was read.
pub(crate) fn ignore_missing(patched: kube::Result<Pod>) -> Result<()> {
    match patched {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        patched => Ok(patched.map(drop)?),
    }
}

/// Returns the next annotation for a pod: first how long it takes to stop, and its exit code when
/// it has run long enough.
fn instruction(
    pod: &Pod,
    script: &Script,
    random: &mut RandomSequence,
    now: Timestamp,
) -> Option<(&'static str, String)> {
    let status = pod.status.as_ref()?;
    if pod.metadata.deletion_timestamp.is_some() || status.phase.as_deref() != Some("Running") {
        return None;
    }
    if !pod.annotations().contains_key(kubelet::STOP_AFTER) {
        let stop = random.log_uniform_millis(20, script.kubelets.stop.max(21));
        return Some((kubelet::STOP_AFTER, format!("{}s", stop.as_secs())));
    }
    let (job, attempt) = find_job(pod, script)?;
    let seconds = job
        .run_seconds
        .get(attempt.checked_sub(1)?)
        .or(job.run_seconds.last())?;
    let end = status.start_time.as_ref()?.0.as_second() + i64::try_from(*seconds).ok()?;
    if pod.annotations().contains_key(kubelet::EXIT) || now.as_second() < end {
        return None;
    }
    // One rank fails, and the gang follows it.
    let is_first = pod
        .labels()
        .get(names::INDEX)
        .is_some_and(|index| index == "0");
    let code = u8::from(attempt <= job.failures && is_first);
    Some((kubelet::EXIT, code.to_string()))
}

fn find_job<'a>(pod: &Pod, script: &'a Script) -> Option<(&'a JobScript, usize)> {
    let name = pod.labels().get(names::JOB)?;
    let attempt = pod.labels().get(names::ATTEMPT)?.parse().ok()?;
    let job = script.jobs.iter().find(|job| job.name == *name)?;
    Some((job, attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &serde_json::Value, index: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "labels": {names::JOB: "job-0", names::ATTEMPT: "1", names::INDEX: index},
                "annotations": annotations,
            },
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
        }))
        .unwrap()
    }

    #[test]
    fn pod_gets_its_stop_time_and_then_its_exit_code() {
        let mut script = Script::from_seed(1);
        script.jobs.truncate(1);
        (script.jobs[0].run_seconds, script.jobs[0].failures) = (vec![60], 1);
        let random = &mut RandomSequence::new(1, "test");
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut instruct = |pod: &Pod, seconds| {
            let now = start + jiff::SignedDuration::from_secs(seconds);
            instruction(pod, &script, random, now)
        };
        let (key, _) = instruct(&pod(&json!({}), "0"), 0).unwrap();
        assert_eq!(key, kubelet::STOP_AFTER);
        let told = json!({kubelet::STOP_AFTER: "1s"});
        assert_eq!(instruct(&pod(&told, "0"), 59), None);
        let exit = |code: &str| Some((kubelet::EXIT, code.to_owned()));
        assert_eq!(instruct(&pod(&told, "0"), 60), exit("1"));
        assert_eq!(instruct(&pod(&told, "1"), 60), exit("0"));
        let ended = json!({kubelet::STOP_AFTER: "1s", kubelet::EXIT: "0"});
        assert_eq!(instruct(&pod(&ended, "1"), 99), None);
    }
}
