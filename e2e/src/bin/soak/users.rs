//! The users of a site: they submit the jobs of its script, and change their minds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use trellis_api::{PodGroup, TrainingJob, names};
use trellis_simulation::{Act, Script};

use crate::END_TIMEOUT;
use crate::report::Report;
use crate::site::Site;

/// Interval between two checks that jobs have ended.
const END_INTERVAL: Duration = Duration::from_secs(2);

impl Site {
    /// Acts as the script says until a time.
    pub(crate) async fn act_until(
        &self,
        start: Instant,
        deadline: Instant,
        report: &Mutex<Report>,
    ) -> Result<()> {
        for (at, act) in timeline(&self.script) {
            let at = start + Duration::from_secs(at);
            if at > deadline {
                break;
            }
            sleep_until(at).await;
            if self.act(&act).await? {
                report.lock().submitted += 1;
                self.submitted.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns true if the act has submitted a job.
    async fn act(&self, act: &Act) -> Result<bool> {
        let nodes = self.nodes();
        let outcome = match act {
            Act::Submit(name) => match self.job_object(name) {
                Some(job) => return is_created(self.create(job).await),
                None => Ok(()),
            },
            Act::Delete(job) => delete(&self.api::<TrainingJob>(), job).await,
            Act::Suspend(job) => self.set_suspended(job, true).await,
            Act::Resume(job) => self.set_suspended(job, false).await,
            Act::DeletePod(job) => self.delete_pod(job).await,
            Act::DeletePodGroup(job) => delete(&self.api::<PodGroup>(), job).await,
            Act::SetQuota(queue, gpus) if self.has_quota(*queue) => {
                self.set_quota(*queue, *gpus).await
            }
            Act::SetQuota(..)
            | Act::DeletePlaceholder
            | Act::KillProcess(..)
            | Act::SetReplicas(..) => Ok(()),
            Act::AddQueue => self.add_queue().await,
            Act::Cordon(node) => return nodes.cordon(&nodes.names()[*node]).await.map(|()| false),
            Act::Uncordon(node) => {
                return nodes.uncordon(&nodes.names()[*node]).await.map(|()| false);
            }
            Act::Quarantine(node) => {
                return self.set_quarantined(*node, true).await.map(|()| false);
            }
            Act::Release(node) => return self.set_quarantined(*node, false).await.map(|()| false),
        };
        match outcome {
            // The object of the act has gone, or has just changed.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            outcome => Ok(outcome.map(|()| false)?),
        }
    }

    fn has_quota(&self, queue: usize) -> bool {
        self.script.queues[queue].gpus.is_some()
    }

    async fn set_suspended(&self, job: &str, is_suspended: bool) -> kube::Result<()> {
        let patch = json!({"spec": {"suspend": is_suspended}});
        self.patch(job, patch).await.map(drop)
    }

    async fn delete_pod(&self, job: &str) -> kube::Result<()> {
        let pods = self.api::<Pod>();
        let of_job = ListParams::default().labels(&format!("{}={job}", names::JOB));
        let list = pods.list(&of_job).await?;
        let mut staying = list.items.iter();
        match staying.find(|pod| pod.metadata.deletion_timestamp.is_none()) {
            Some(pod) => delete(&pods, &pod.name_any()).await,
            None => Ok(()),
        }
    }

    /// Takes back what holds jobs up, deletes the jobs that do not fit, and waits until all others
    /// have ended.
    pub(crate) async fn settle(&self, report: &Mutex<Report>) -> Result<()> {
        for (index, name) in self.nodes().names().iter().enumerate() {
            self.nodes().uncordon(name).await?;
            self.set_quarantined(index, false).await?;
        }
        for (index, queue) in self.script.queues.iter().enumerate() {
            if let Some(gpus) = queue.gpus {
                self.set_quota(index, gpus).await?;
            }
        }
        for job in self
            .api::<TrainingJob>()
            .list(&ListParams::default())
            .await?
        {
            let name = job.name_any();
            let act = match can_end(&self.script, &name) {
                true => Act::Resume(name),
                false => Act::Delete(name),
            };
            self.act(&act).await?;
        }
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            let unfinished = self.unfinished_jobs().await?;
            if unfinished.is_empty() || Instant::now() > deadline {
                let mut report = report.lock();
                report.ended += self.submitted.load(Ordering::Relaxed) - unfinished.len();
                report.unfinished.extend(unfinished);
                return Ok(());
            }
            sleep(END_INTERVAL).await;
        }
    }

    async fn unfinished_jobs(&self) -> Result<Vec<String>> {
        let jobs = self
            .api::<TrainingJob>()
            .list(&ListParams::default())
            .await?;
        let unfinished = jobs.items.into_iter().filter_map(|job| {
            let name = job.name_any();
            let status = job.status.unwrap_or_default();
            (!status.has_ended()).then(|| {
                format!(
                    "unfinished: job {}/{name} is {:?}: {}",
                    self.name(),
                    status.phase,
                    status.full_message()
                )
            })
        });
        Ok(unfinished.collect())
    }
}

/// Returns the acts of a script in the order of their seconds. The submission of a job is an act.
fn timeline(script: &Script) -> Vec<(u64, Act)> {
    let jobs = script
        .jobs
        .iter()
        .map(|job| (job.at, Act::Submit(job.name.clone())));
    // On a real control plane, an act waits for no write.
    let acts = script.acts.iter().map(|act| {
        let millis = act.after.as_ref().map_or(0, |after| after.millis);
        (act.at + millis / 1000, act.act.clone())
    });
    let mut all: Vec<_> = jobs.chain(acts).collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Returns true if the nodes and the quota have room for a job.
fn can_end(script: &Script, name: &str) -> bool {
    let Some(job) = script.jobs.iter().find(|job| job.name == name) else {
        return false;
    };
    let room = |node: &u32| node.checked_div(job.gpus).unwrap_or(u32::MAX);
    let places = script.nodes.iter().map(room).fold(0, u32::saturating_add);
    let quotas: Vec<u32> = script
        .queues
        .iter()
        .filter_map(|queue| queue.gpus)
        .collect();
    let quota: u32 = quotas.iter().sum();
    places >= job.replicas && (quotas.is_empty() || job.replicas * job.gpus <= quota)
}

async fn delete<K>(api: &Api<K>, name: &str) -> kube::Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.map(drop)
}

/// Returns false if the name was in use.
fn is_created(answer: kube::Result<TrainingJob>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeline_has_all_jobs_and_acts_in_order() {
        for seed in 1..50 {
            let script = Script::from_seed(seed);
            let timeline = timeline(&script);
            assert_eq!(timeline.len(), script.jobs.len() + script.acts.len());
            assert!(timeline.is_sorted_by_key(|(at, _)| *at));
        }
    }

    #[test]
    fn job_that_exceeds_nodes_or_quota_cannot_end() {
        let mut script = Script::from_seed(1);
        script.nodes = vec![4, 8];
        script.queues.truncate(1);
        script.queues[0].gpus = None;
        script.jobs.truncate(1);
        let job = &mut script.jobs[0];
        (job.replicas, job.gpus) = (3, 4);
        let name = job.name.clone();
        assert!(can_end(&script, &name));
        script.jobs[0].replicas = 4;
        assert!(!can_end(&script, &name));
        script.jobs[0].replicas = 3;
        script.queues[0].gpus = Some(11);
        assert!(!can_end(&script, &name));
        assert!(!can_end(&script, "unknown"));
    }
}
