//! Orders nodes for a gang. This module first makes all checks of a commit, so that no node is
//! bought for a pod that admission refuses. Then it writes the order to the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use trellis_api::pod_group::FlavorNodes;
use trellis_api::{Reason, TrainingJob};
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{AuthorizedAttempt, journal};
use trellis_machine::clock;
use trellis_scheduler::{GroupName, NodeName, Placement};

use super::Committer;
use super::plan_opening::plan_quota;
use crate::task_outcome::TaskOutcome;

/// Nodes to order for a gang.
#[derive(Clone, Debug)]
pub struct NodeOrder {
    /// Flavors and limits of the gang. Its placement names no nodes.
    pub place: GangPlacement,
    /// The number of new nodes by flavor.
    pub nodes: Vec<FlavorNodes>,
    /// When the order ends.
    pub until: Timestamp,
}

impl Committer {
    /// Writes an order of nodes to the journal, unless admission or a ResourceQuota would forbid
    /// the gang's pods. The next step creates the objects that ask for them.
    pub async fn provision(
        &self,
        job: Key,
        run: Arc<AuthorizedAttempt>,
        order: NodeOrder,
        planned: BTreeMap<String, AdmittedPod>,
        stop: CancellationToken,
    ) -> TaskOutcome {
        let tried = self.try_to_provision(&job, &run, order, planned, &stop);
        tried.await.err().unwrap_or(TaskOutcome::Done)
    }

    async fn try_to_provision(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        order: NodeOrder,
        planned: BTreeMap<String, AdmittedPod>,
        stop: &CancellationToken,
    ) -> Result<(), TaskOutcome> {
        let NodeOrder {
            mut place,
            nodes,
            until,
        } = order;
        self.check_allowed(job, run)?;
        place.placement = unplaced_gang(run);
        let plan = journal::build_plan(run, &place, clock::now());
        let actual = self.run_preflight(job, run, &plan, &planned).await?;
        if actual != planned {
            return Err(TaskOutcome::Replan(actual));
        }
        self.await_current_policies(job, run, place.quota_version, stop)
            .await?;
        self.promise_quota(job, plan_quota(run, &plan, &actual))?;
        if stop.is_cancelled() {
            return Err(TaskOutcome::Done);
        }
        self.check_allowed(job, run)?;
        let times = (clock::now(), until);
        let order = journal::build_provisioning(run, place.groups, nodes, times);
        self.write_journal(job, &run.uid, move |before| {
            journal::provision(before, order)
        })
        .await
    }

    /// Promises room in the ResourceQuotas of the namespace to a gang whose order an earlier leader
    /// wrote.
    pub(crate) fn promise_quota_of_order(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        admitted: &BTreeMap<String, AdmittedPod>,
    ) {
        let open = OpenPlan::new("", run.job.compiled(), admitted);
        self.open_plans.insert(job, open);
    }

    /// Writes the end of a gang's node order to the journal. `failure` is the message of an event for
    /// the job. None: no event.
    pub async fn end_provisioning(
        &self,
        job: &Key,
        uid: &str,
        failure: Option<String>,
    ) -> TaskOutcome {
        let written = self.write_journal(job, uid, journal::end_provisioning);
        if let Err(outcome) = written.await {
            return outcome;
        }
        let Some(message) = failure else {
            return TaskOutcome::Done;
        };
        let event = Event {
            type_: EventType::Warning,
            reason: Reason::ProvisioningFailed.as_str().to_owned(),
            note: Some(message),
            action: "Provisioning".to_owned(),
            secondary: None,
        };
        let about = ObjectReference {
            api_version: Some(TrainingJob::api_version(&()).into_owned()),
            kind: Some(TrainingJob::kind(&()).into_owned()),
            namespace: Some(job.namespace.to_string()),
            name: Some(job.name.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let commands = self.commands.with_low_priority();
        if let Err(error) = commands.publish_event(&event, &about).await {
            debug!(%error, "an event was not written");
        }
        TaskOutcome::Done
    }
}

/// Returns a placement without node names, for a dry run of the gang's pods.
fn unplaced_gang(run: &AuthorizedAttempt) -> Placement {
    let groups = run.job.compiled().groups().iter();
    groups
        .map(|group| {
            let runs = vec![(NodeName::new(""), group.gang_size())];
            (GroupName::new(group.name()), runs)
        })
        .collect()
}
