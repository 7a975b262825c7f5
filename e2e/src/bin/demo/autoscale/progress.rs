//! The messages of the job and the number of nodes, with the time since the submission of the job.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;
use trellis_api::job::TrainingJobStatus;
use trellis_e2e::control_plane::ControlPlane;
use trellis_e2e::wait::eventually;

use crate::screen::print_line;
use crate::steps::wait_for_status_within;

/// Longest time until the job has its nodes. An idle machine needs less than a minute.
const START_TIMEOUT: Duration = Duration::from_secs(240);
/// Longest time until Karpenter has removed all nodes. An idle machine needs about a minute.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(240);

/// Prints what changes after the submission of a job.
pub(super) struct Progress<'a> {
    control_plane: &'a ControlPlane,
    job: &'a str,
    started: Instant,
    messages: RefCell<Vec<String>>,
}

impl<'a> Progress<'a> {
    pub(super) fn start(control_plane: &'a ControlPlane, job: &'a str) -> Self {
        Self {
            control_plane,
            job,
            started: Instant::now(),
            messages: RefCell::default(),
        }
    }

    /// Prints each new reason and message of the job until `condition` is true.
    pub(super) async fn print_messages_until(
        &self,
        condition: impl Fn(&TrainingJobStatus) -> bool,
    ) -> Result<()> {
        wait_for_status_within(START_TIMEOUT, self.control_plane, self.job, |status| {
            self.print_new_message(status);
            condition(status)
        })
        .await?;
        Ok(())
    }

    /// Returns the messages that the job has had so far.
    pub(super) fn messages(&self) -> Vec<String> {
        self.messages.borrow().clone()
    }

    /// Prints the number of nodes at each change, until none is left.
    pub(super) async fn print_node_counts_until_none(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.control_plane.client());
        let printed = Cell::new(None);
        eventually(SHRINK_TIMEOUT, || async {
            let count = nodes.list(&ListParams::default()).await?.items.len();
            if printed.replace(Some(count)) != Some(count) {
                self.print(&format!("nodes: {count}"));
            }
            ensure!(count == 0, "{count} nodes are left");
            Ok(())
        })
        .await
    }

    fn print_new_message(&self, status: &TrainingJobStatus) {
        let reason = status.reason.map_or("", trellis_api::Reason::as_str);
        let message = format!(
            "{reason}: {}",
            status.message.as_deref().unwrap_or_default()
        );
        let mut messages = self.messages.borrow_mut();
        if status.message.is_some() && messages.last() != Some(&message) {
            self.print(&message);
            messages.push(message);
        }
    }

    fn print(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        print_line(&format!("{seconds:>4} s  {text}"));
    }
}
