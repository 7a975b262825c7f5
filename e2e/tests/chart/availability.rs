//! Checks that the API server calls the operators, as an admission webhook and as an API group.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use http::StatusCode;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;
use trellis_api::TrainingJob;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::visibility;

use crate::real_cluster::gang_job;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest gap in the responses that a busy machine may cause. An untrusted certificate causes
/// a longer gap: it lasts until all pods serve the renewed certificate, or forever.
const MAX_GAP: Duration = Duration::from_secs(45);

/// Checks that the API server calls the operators in both roles.
pub(crate) async fn check_both_roles(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client();
    check_webhook(&client).await?;
    check_api_group(&client).await
}

/// The webhook refuses a job that the starter policies deny.
async fn check_webhook(client: &Client) -> Result<()> {
    let mut denied = gang_job("denied");
    denied["spec"]["taskGroups"][0]["podTemplate"] = json!({"spec": {"hostPID": true}});
    let jobs: Api<TrainingJob> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match jobs
        .create(&dry_run, &serde_json::from_value(denied)?)
        .await
    {
        Ok(_) => bail!("a denied job is accepted"),
        Err(error) => {
            let error_text = error.to_string();
            ensure!(
                error_text.contains("\"trainingjobs.trellis.dev\" denied"),
                "{error_text}"
            );
            Ok(())
        }
    }
}

/// The API group lists the queues.
async fn check_api_group(client: &Client) -> Result<()> {
    let (code, body) =
        visibility::send_request(client, &visibility::resource_path("/queuestates"), &[]).await?;
    ensure!(code == StatusCode::OK, "{code}: {body}");
    Ok(())
}

/// A client that uses both roles repeatedly while certificates change.
pub(crate) struct AvailabilityMonitor {
    log: PathBuf,
    /// Length of the API server's log at the start.
    log_offset: usize,
    is_stopped: Arc<AtomicBool>,
    requests: JoinHandle<AvailabilityReport>,
}

impl AvailabilityMonitor {
    /// Starts the requests.
    pub(crate) fn start(control_plane: &ControlPlane) -> Result<Self> {
        let log = control_plane.logs_folder().join("kube-apiserver.log");
        let is_over = Arc::new(AtomicBool::new(false));
        let watches = tokio::spawn(poll_until_stopped(control_plane.client(), is_over.clone()));
        Ok(Self {
            log_offset: fs::read(&log)?.len(),
            log,
            is_stopped: is_over,
            requests: watches,
        })
    }

    /// Stops the requests. Fails if no request was answered for too long, or if the log of the API
    /// server has a TLS error about Trellis. Single unanswered requests prove nothing, because they
    /// also occur on a busy machine.
    pub(crate) async fn stop_and_check(mut self) -> Result<()> {
        let AvailabilityReport {
            answer_count: answered,
            longest_gap: silence,
        } = {
            self.is_stopped.store(true, Ordering::Relaxed);
            (&mut self.requests).await?
        };
        ensure!(answered > 0, "no replica answered");
        ensure!(silence < MAX_GAP, "no replica answered for {silence:?}");
        let log_text = fs::read(&self.log)?;
        let log_text = String::from_utf8_lossy(log_text.get(self.log_offset..).unwrap_or_default());
        let is_wrong = |line: &&str| line.contains("tls: ") && line.contains("trellis");
        let wrong: Vec<&str> = log_text.lines().filter(is_wrong).collect();
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }
}

impl Drop for AvailabilityMonitor {
    /// Stops the requests even if the test fails.
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// The result of these requests.
struct AvailabilityReport {
    /// Number of rounds in which both requests were answered.
    answer_count: u32,
    /// Longest time without such a round.
    longest_gap: Duration,
}

async fn poll_until_stopped(client: Client, is_over: Arc<AtomicBool>) -> AvailabilityReport {
    let (mut answered, mut silence) = (0_u32, Duration::ZERO);
    let mut last = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let results = (check_webhook(&client).await, check_api_group(&client).await);
        silence = silence.max(last.elapsed());
        if matches!(results, (Ok(()), Ok(()))) {
            answered = answered.saturating_add(1);
            last = Instant::now();
        }
        tokio::time::sleep(PAUSE).await;
    }
    AvailabilityReport {
        answer_count: answered,
        longest_gap: silence,
    }
}
