//! Orders new nodes for gangs, as the engine decides.

use tracing::info;
use trellis_api::pod_group::{FlavorNodes, GangProvisioning, PodGroupStatus};
use trellis_gang::key::Key;
use trellis_gang::requirements::flavors::GangPlacement;
use trellis_gang::{engine, journal, quota};
use trellis_scheduler::{
    FlavorName, GroupFlavors, GroupName, Provisioning, ProvisioningRequest, ResourceName,
};

use super::{Driver, EngineState};
use crate::commit::NodeOrder;

impl Driver {
    /// Writes the order of new nodes to the gang's journal.
    pub(super) fn provision(&mut self, request: &ProvisioningRequest) {
        let job = engine::job_key(&request.gang);
        let Some(state) = self.gangs.get(&job) else {
            return;
        };
        // The journal is being written, or policies judge the gang. It is queued again after that.
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

    /// Gives up the nodes on order for a gang. The gang stays in the engine.
    pub(super) fn end_provisioning(
        &mut self,
        job: &Key,
        provisioning: &Provisioning,
        is_late: bool,
    ) {
        let (wanted, arrived) = provisioning.progress();
        info!(%job, wanted, arrived, is_late, "new nodes are given up");
        let Some(state) = self.gangs.get(job) else {
            return;
        };
        match &state.task {
            Some(task) => task.stop.cancel(),
            None => self.write_journal(job, journal::end_provisioning),
        }
    }

    /// Keeps an order of the journal going: the engine tries the gang, and the gang's placeholders
    /// exist.
    pub(super) fn continue_provisioning(
        &mut self,
        job: &Key,
        journal: &PodGroupStatus,
        nodes: &GangProvisioning,
    ) {
        let id = engine::gang_id(job);
        let is_known = self.engine.provisioning(&id).is_some();
        let state = self.gangs.get(job);
        let engine_state = state.map(|state| state.engine_state).unwrap_or_default();
        let is_new = self.inheritance.plan(job) == Some(nodes.hash.as_str())
            && engine_state == EngineState::Absent;
        self.enqueue(job, journal);
        if is_new {
            self.restore_provisioning(job, nodes);
        } else if !is_known {
            // The engine has given the nodes up, or this replica has withdrawn the gang.
            self.write_journal(job, journal::end_provisioning);
            return;
        }
        let Some(state) = self.gangs.get_mut(job) else {
            return;
        };
        let Some(run) = state.run().cloned() else {
            return;
        };
        if state.placeholders_of.as_ref() == Some(&nodes.hash) {
            return;
        }
        state.placeholders_of = Some(nodes.hash.clone());
        let admitted = state.admitted_pods(&run);
        let committer = self.committer.clone();
        let nodes = nodes.clone();
        self.start_task(job, Some(run.clone()), |_| async move {
            committer.create_placeholders(run, nodes, admitted).await
        });
    }

    /// Restores an order of an earlier leader in the engine.
    fn restore_provisioning(&mut self, job: &Key, nodes: &GangProvisioning) {
        let flavors: Vec<GroupFlavors> = nodes
            .groups
            .iter()
            .map(|group| GroupFlavors {
                group: GroupName::new(group.name.as_str()),
                flavors: group
                    .flavors
                    .iter()
                    .map(|(r, f)| (ResourceName::new(r.as_str()), FlavorName::new(f.as_str())))
                    .collect(),
            })
            .collect();
        let wanted = nodes.nodes.iter().map(|nodes| {
            let count = u32::try_from(nodes.count).unwrap_or(0);
            (FlavorName::new(nodes.flavor.as_str()), count)
        });
        let wanted: std::collections::BTreeMap<_, _> = wanted.collect();
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

fn to_flavor_nodes(request: &ProvisioningRequest) -> Vec<FlavorNodes> {
    let nodes = request.nodes.iter().map(|(flavor, count)| FlavorNodes {
        flavor: flavor.as_str().to_owned(),
        count: i64::from(*count),
    });
    nodes.collect()
}
