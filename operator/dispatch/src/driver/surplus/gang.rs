//! A surplus unit as the engine knows it.

use std::collections::BTreeMap;

use tokio::time::Instant;
use trellis_api::pod_group::{Assignment, Plan};
use trellis_gang::engine::SurplusUnit;
use trellis_gang::key::Key;
use trellis_gang::{AuthorizedAttempt, engine};
use trellis_scheduler::{Gang, NodeName};

use crate::driver::Driver;

impl Driver {
    /// Returns the engine's form of a surplus unit.
    pub(in crate::driver) fn surplus_gang(
        &mut self,
        job: &Key,
        run: &AuthorizedAttempt,
        plan: &Plan,
        member: &SurplusUnit,
    ) -> Option<Gang> {
        let exclusive_node_values = self.exclusive_node_values(job);
        let state = self.gangs.get(job)?;
        let avoided = state.avoided.current(Instant::now()).cloned();
        let ticket = engine::AttemptState {
            submitted: run.attempt.submitted,
            excluded_nodes: run.avoided_nodes(true).chain(avoided).collect(),
            volumes: run.volumes.clone(),
            closed_domains: self.excluded_domains(job, run, &state.admitted),
            exclusive_node_values,
            ..engine::AttemptState::default()
        };
        let mut gang = engine::gang_from_surplus_unit(
            run.job.compiled(),
            &ticket,
            &state.admitted,
            plan,
            member,
        )?;
        gang.draws = state.surplus_draws();
        Some(gang)
    }

    /// Returns the labels of the domain in which a joining pod must be. Empty: it may be anywhere.
    /// None: no node of the gang is in such a domain, so the pod waits.
    pub(in crate::driver) fn domain_labels(
        &self,
        run: &AuthorizedAttempt,
        plan: &Plan,
        group: &str,
    ) -> Option<BTreeMap<String, String>> {
        let spec = run.job.compiled().job().spec();
        let Some((level, is_of_group)) = spec.required_level(group) else {
            return Some(BTreeMap::new());
        };
        let is_own = |a: &&Assignment| !is_of_group || a.group == group;
        let own: Vec<_> = plan.assignments.iter().filter(is_own).collect();
        // Without a pod in the gang, the group takes the domain of the first other group.
        let nodes = match own.is_empty() {
            true => plan.assignments.iter().collect(),
            false => own,
        };
        nodes.into_iter().find_map(|assignment| {
            let node = NodeName::new(assignment.node.as_str());
            self.engine.domain_labels(level, &node)
        })
    }
}
