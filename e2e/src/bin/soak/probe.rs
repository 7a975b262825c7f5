//! Measures the time from the apply of a small gang, which always fits, to its placement.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use trellis_api::pod_group::PodGroupPhase;
use trellis_api::{PodGroup, TrainingJob};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::kubelet;
use trellis_e2e::site::TestSite;

use crate::END_TIMEOUT;
use crate::faults::Faults;
use crate::report::Report;

/// Time from one gang to the next.
const INTERVAL: Duration = Duration::from_secs(20);
const PODS: u32 = 2;
/// Pauses between two looks at the journal, in the first second and later.
const SHORT_PAUSE: Duration = Duration::from_millis(5);
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// One measured gang.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placement {
    /// From the apply to the placed journal.
    pub(crate) seconds: f64,
    /// A fault lasted, or had just ended.
    pub(crate) is_disturbed: bool,
}

pub(crate) struct Probe {
    pub(crate) site: TestSite,
    count: usize,
}

impl Probe {
    pub(crate) async fn create(control_plane: &ControlPlane) -> Self {
        Self {
            site: TestSite::new(control_plane, "soak-probe", NodeTemplate::new(1)).await,
            count: 0,
        }
    }

    /// Measures until a time.
    pub(crate) async fn measure_until(
        &mut self,
        deadline: Instant,
        faults: &Faults<'_>,
        report: &Mutex<Report>,
    ) -> Result<()> {
        while Instant::now() < deadline {
            let next = Instant::now() + INTERVAL;
            self.measure(faults, report).await?;
            sleep_until(next).await;
        }
        Ok(())
    }

    async fn measure(&mut self, faults: &Faults<'_>, report: &Mutex<Report>) -> Result<()> {
        self.count += 1;
        let name = format!("probe-{}", self.count);
        let was_disturbed = faults.is_disturbed();
        let start = Instant::now();
        self.site.create(self.site.job(&name, PODS, 1)).await?;
        report.lock().submitted += 1;
        let is_placed = self.wait_until_placed(&name, start).await?;
        if is_placed {
            report.lock().placements.push(Placement {
                seconds: start.elapsed().as_secs_f64(),
                is_disturbed: was_disturbed || faults.is_disturbed(),
            });
        }
        match is_placed && self.end(&name).await? {
            true => report.lock().ended += 1,
            false => report.lock().unfinished.push(format!("unfinished: {name}")),
        }
        let jobs = self.site.api::<TrainingJob>();
        jobs.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    async fn wait_until_placed(&self, name: &str, start: Instant) -> Result<bool> {
        let groups = self.site.api::<PodGroup>();
        while start.elapsed() < END_TIMEOUT {
            let group = groups.get_opt(name).await?;
            let journal = group.and_then(|group| group.status);
            if journal.is_some_and(|journal| journal.phase == Some(PodGroupPhase::Placed)) {
                return Ok(true);
            }
            let is_young = start.elapsed() < Duration::from_secs(1);
            sleep(if is_young { SHORT_PAUSE } else { LONG_PAUSE }).await;
        }
        Ok(false)
    }

    /// Ends the pods of each attempt until the job has ended.
    async fn end(&self, name: &str) -> Result<bool> {
        let (jobs, pods) = (self.site.api::<TrainingJob>(), self.site.api::<Pod>());
        let exit = Patch::Merge(json!({"metadata": {"annotations": {kubelet::EXIT: "0"}}}));
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            let job = jobs.get(name).await?;
            if job.status.is_some_and(|status| status.has_ended()) {
                return Ok(true);
            }
            for pod in pods.list(&ListParams::default()).await? {
                if !pod.annotations().contains_key(kubelet::EXIT) {
                    let patched = pods
                        .patch(&pod.name_any(), &PatchParams::default(), &exit)
                        .await;
                    crate::pods::ignore_missing(patched)?;
                }
            }
            sleep(LONG_PAUSE).await;
        }
        Ok(false)
    }
}
