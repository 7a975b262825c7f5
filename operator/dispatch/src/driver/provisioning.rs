//! Orders new nodes for gangs, as the engine decides.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use trellis_api::Reason;
use trellis_api::pod_group::{FlavorNodes, JournaledOrder, PlannedGroup, PodGroupStatus};
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{GangExplanation, engine, quota};
use trellis_machine::clock;
use trellis_scheduler::{FlavorGrowth, FlavorName, NodeRequest, Provisioning, WaitReason};

use super::{Driver, EngineState};
use crate::SchedulerEvent;
use crate::commit::NodeOrder;
use crate::metrics::NodeOrderEnd;

/// The failure of an order.
#[derive(Debug)]
pub(super) struct OrderFailure {
    /// Hash of the order.
    pub(super) hash: String,
    /// Message of the event of the job.
    pub(super) message: String,
}

impl Driver {
    /// Writes the order of new nodes to the gang's journal.
    pub(super) fn provision(&mut self, request: &NodeRequest) {
        let job = engine::job_key(&request.gang);
        let Some(state) = self.gangs.get(&job) else {
            return;
        };
        // Another task writes the journal, or policies still evaluate the gang. The gang is enqueued
        // again afterwards.
        let (Some(run), false, true) = (
            state.run().cloned(),
            state.task.is_some(),
            self.is_judged(&job),
        ) else {
            return self.withdraw(&job);
        };
        let limits = state.limits.as_deref();
        let order = NodeOrder {
            place: GangPlacement {
                groups: self.flavors.plan_groups(&request.flavors),
                limits: limits.map(quota::to_planned_limits).unwrap_or_default(),
                requester: limits.and_then(|limits| limits.requester.clone()),
                quota_version: limits.map_or(0, |limits| limits.version),
                ..GangPlacement::default()
            },
            nodes: to_flavor_nodes(request),
            until: engine::to_timestamp(request.until),
        };
        let planned = state.admitted_pods(&run);
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(&job, Some(run.clone()), |stop| async move {
            committer.provision(key, run, order, planned, stop).await
        });
    }

    /// Ends the node order of a gang. The gang stays in the engine.
    pub(super) fn end_provisioning(
        &mut self,
        job: &Key,
        provisioning: &Provisioning,
        is_late: bool,
    ) {
        let end = match is_late {
            true => NodeOrderEnd::Late,
            false => NodeOrderEnd::Withdrawn,
        };
        self.count_node_order(job, provisioning, end);
        let order = self
            .committer
            .context()
            .journaled_order(job)
            .filter(|_| is_late);
        let failure = order.map(|order| OrderFailure {
            message: self.describe_failure(&order, provisioning),
            hash: order.hash,
        });
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        state.order_failure = failure;
        match &state.task {
            // The step after this task writes the end.
            Some(task) => task.stop.cancel(),
            None => self.write_order_end(job),
        }
    }

    /// Writes the end of the gang's order to the journal, and an event if its nodes did not come.
    pub(super) fn write_order_end(&mut self, job: &Key) {
        let (Some(uid), Some(order)) = (
            self.job_uid(job),
            self.committer.context().journaled_order(job),
        ) else {
            return;
        };
        let state = self.gangs.get(job);
        let failure = state.and_then(|state| state.order_failure.as_ref());
        let failure = failure.filter(|failure| failure.hash == order.hash);
        let message = failure.map(|failure| failure.message.clone());
        let committer = self.committer.clone();
        let key = job.clone();
        self.start_task(job, None, |_| async move {
            committer.end_provisioning(&key, &uid, message).await
        });
    }

    /// Removes a gang from the engine. Its order of new nodes ends, if it has one.
    pub(super) fn retire_gang(&mut self, job: &Key) {
        let id = engine::gang_id(job);
        if let Some(provisioning) = self.engine.provisioning(&id) {
            self.count_node_order(job, provisioning, NodeOrderEnd::Withdrawn);
        }
        self.engine.retire_gang(&id);
    }

    fn count_node_order(&self, job: &Key, provisioning: &Provisioning, end: NodeOrderEnd) {
        let (wanted, arrived) = provisioning.progress();
        info!(%job, wanted, arrived, ?end, "a node order ended unused");
        let metrics = &self.committer.context().metrics;
        for flavor in provisioning.wanted.keys() {
            // The nodes of this flavor have come.
            let came = end == NodeOrderEnd::Late && !provisioning.missing.contains_key(flavor);
            let end = if came { NodeOrderEnd::Withdrawn } else { end };
            metrics.count_node_order(flavor.as_str(), end);
        }
    }

    /// Records that a gang starts, if new nodes were on order for it.
    pub(super) fn record_used_order(&mut self, job: &Key) {
        let group = self.committer.cache().pod_groups.get(job);
        let nodes = group
            .as_ref()
            .and_then(|group| group.status.as_ref()?.provisioning.as_ref());
        let Some(nodes) = nodes else { return };
        let took = clock::now().duration_since(nodes.since.0);
        let took = Duration::try_from(took).unwrap_or_default();
        let context = self.committer.context().clone();
        context.metrics.observe_node_order(took);
        for flavor in nodes.nodes.iter().map(|nodes| nodes.flavor.clone()) {
            context
                .metrics
                .count_node_order(&flavor, NodeOrderEnd::Used);
            let name = FlavorName::new(flavor.as_str());
            self.provisioning_times.add(name, took);
            context.send_event(SchedulerEvent::Flavor(flavor.into()));
        }
    }

    /// Adds the usual arrival time to a flavor's growth. None: the flavor has no growth.
    pub(super) fn growth_with_usual_time(
        &self,
        flavor: &FlavorName,
        growth: Option<FlavorGrowth>,
    ) -> Option<FlavorGrowth> {
        let growth = growth?;
        let metrics = &self.committer.context().metrics;
        metrics.export_node_orders(flavor.as_str());
        Some(FlavorGrowth {
            usual: self.provisioning_times.median(flavor),
            ..growth
        })
    }

    /// Records the nodes on order, once a cycle.
    pub(super) fn record_nodes_on_order(&mut self) {
        let now = Instant::now();
        let before = self.orders_recorded_at.replace(now);
        let elapsed = before.map(|at| now.duration_since(at)).unwrap_or_default();
        let progress = self.engine.provisioned_gangs().map(|(_, p)| p.progress());
        let (arrived, missing) = progress.fold((0_u32, 0_u32), |(come, missing), (all, here)| {
            (
                come.saturating_add(here),
                missing.saturating_add(all.saturating_sub(here)),
            )
        });
        let metrics = &self.committer.context().metrics;
        metrics.record_nodes_on_order(arrived, missing, elapsed);
    }

    /// Restores in the engine an order that an earlier leader wrote. This must precede the next
    /// decision, which the engine may make before this leader writes its epoch to the journal.
    pub(super) fn restore_inherited_order(&mut self, job: &Key, journal: &PodGroupStatus) {
        let Some(nodes) = &journal.provisioning else {
            return;
        };
        let state = self.gangs.get(job);
        let Some(state) = state.filter(|state| state.engine_state == EngineState::Absent) else {
            return;
        };
        let Some(run) = state.run() else { return };
        if self.inheritance.plan(job) == Some(nodes.hash.as_str()) {
            let admitted = state.admitted_pods(run);
            self.committer.promise_quota_of_order(job, run, &admitted);
            self.enqueue(job, journal);
            self.restore_provisioning(job, nodes);
        }
    }

    /// Continues an order that the journal records: enqueues the gang, and creates the order's objects
    /// if they are missing. If the autoscaler refuses the nodes, the engine ends the order.
    pub(super) fn continue_provisioning(
        &mut self,
        job: &Key,
        journal: &PodGroupStatus,
        nodes: &JournaledOrder,
    ) {
        let id = engine::gang_id(job);
        let is_known = self.engine.provisioning(&id).is_some();
        self.enqueue(job, journal);
        if !is_known {
            // The engine has ended the order, or this replica has withdrawn the gang.
            return self.write_order_end(job);
        }
        let orders = &self.committer.context().node_orders;
        if orders.requests.failure(&nodes.hash).is_some() {
            return self.engine.fail_provisioning(&id);
        }
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(run) = state.run().cloned() else {
            return;
        };
        let is_incomplete = orders.take_incomplete(&nodes.hash);
        if !is_incomplete && state.order.as_ref() == Some(&nodes.hash) {
            return;
        }
        let is_new = state.order.replace(nodes.hash.clone()).as_ref() != Some(&nodes.hash);
        if is_new {
            self.record_order_explanation(job);
        }
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        let admitted = state.admitted_pods(&run);
        let committer = self.committer.clone();
        let (key, nodes) = (job.clone(), nodes.clone());
        self.start_task(job, Some(run.clone()), |_| async move {
            committer
                .create_order_objects(key, run, nodes, admitted)
                .await
        });
    }

    /// Returns true if an explanation names an order of nodes that is not in the journal yet. Until the
    /// order is there, admission or a ResourceQuota may refuse it, so the status does not name it.
    pub(super) fn names_unwritten_order(&self, job: &Key, explanation: &GangExplanation) -> bool {
        explanation.reason == Reason::Provisioning
            && self.committer.context().journaled_order(job).is_none()
    }

    /// Records that the gang waits for the nodes of an order that is now in the journal.
    fn record_order_explanation(&mut self, job: &Key) {
        let id = engine::gang_id(job);
        let wait = self.engine.explanation(&id);
        let wait = wait.filter(|wait| wait.reason == WaitReason::Provisioning);
        if let Some(explanation) = wait.map(|wait| self.explain_refusal(&id, wait)) {
            self.record_explanation(job, explanation);
        }
    }

    /// Describes nodes that did not come in time, or that the autoscaler does not add.
    fn describe_failure(&self, order: &JournaledOrder, provisioning: &Provisioning) -> String {
        let requests = &self.committer.context().node_orders.requests;
        let why = match requests.failure(&order.hash) {
            Some(message) => format!(
                "the autoscaler adds no new nodes of {}: {message}",
                provisioning.flavors_text()
            ),
            None => provisioning.lateness_text(),
        };
        format!(
            "{why}; Trellis ends the order, and tries the queue's next flavor, or this one again after a pause"
        )
    }

    /// Returns the label values of the nodes that serve only this gang.
    pub(super) fn exclusive_node_values(&self, job: &Key) -> Vec<String> {
        let requests = &self.committer.context().node_orders.requests;
        let uid = self.job_uid(job);
        uid.map(|uid| requests.node_label_values(&uid))
            .unwrap_or_default()
    }

    /// Annotates the pods of these groups as consumers of the job's ProvisioningRequests.
    pub(super) fn add_request_annotations(&self, job: &Key, groups: &mut [PlannedGroup]) {
        let requests = &self.committer.context().node_orders.requests;
        let Some(uid) = self.job_uid(job) else { return };
        let annotations = requests.pod_annotations(&uid);
        for group in groups {
            let mut flavors = group.flavors.values();
            let of_request = flavors.find_map(|flavor| annotations.get(flavor));
            group.annotations = of_request.cloned().unwrap_or_default();
        }
    }

    /// Restores an order of an earlier leader in the engine.
    fn restore_provisioning(&mut self, job: &Key, nodes: &JournaledOrder) {
        let flavors = engine::flavors_from_groups(&nodes.groups);
        let wanted = nodes.nodes.iter().map(|nodes| {
            let count = u32::try_from(nodes.count).unwrap_or(0);
            (FlavorName::new(nodes.flavor.as_str()), count)
        });
        let wanted: BTreeMap<_, _> = wanted.collect();
        let provisioning = Provisioning {
            since: engine::to_engine_time(nodes.since.0),
            timeout: engine::to_engine_time(nodes.until.0),
            first_arrival: None,
            missing: wanted.clone(),
            wanted,
        };
        self.engine
            .restore_provisioning(&engine::gang_id(job), &flavors, provisioning);
    }
}

fn to_flavor_nodes(request: &NodeRequest) -> Vec<FlavorNodes> {
    let nodes = request.nodes.iter().map(|(flavor, count)| FlavorNodes {
        flavor: flavor.as_str().to_owned(),
        count: i64::from(*count),
    });
    nodes.collect()
}
