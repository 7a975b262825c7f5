//! A pod beyond a gang, as the engine is to know it.

use std::collections::BTreeMap;

use tokio::time::Instant;
use trellis_api::pod_group::Plan;
use trellis_scheduler::{Gang, NodeName};

use super::Driver;
use crate::key::Key;
use crate::scheduling::gang::{self, Member};
use crate::scheduling::wish::Run;

impl Driver {
    /// The engine's form of a pod beyond the gang.
    pub(super) fn surplus_gang(
        &mut self,
        job: &Key,
        run: &Run,
        plan: &Plan,
        member: &Member,
    ) -> Option<Gang> {
        let kept_out = self.kept_out(job);
        let near = self.near(run, plan, &member.group);
        let state = self.gangs.get(job)?;
        let avoided = state.avoided.now(Instant::now()).cloned();
        let ticket = gang::Ticket {
            submitted: run.submitted,
            excluded: run.kept_away_from(true).chain(avoided).collect(),
            volumes: run.volumes.clone(),
            kept_out,
            ..gang::Ticket::default()
        };
        let mut gang = gang::surplus(run.job.compiled(), &ticket, &state.actual, plan, member)?;
        gang.draws = state.surplus_draws();
        for group in &mut gang.groups {
            group.constraints.node_selector.extend(near.clone());
        }
        Some(gang)
    }

    /// The labels of the domain in which a gang must be: a pod that joins the gang must be in it, too.
    fn near(&self, run: &Run, plan: &Plan, group: &str) -> BTreeMap<String, String> {
        let name = group;
        let spec = run.job.compiled().job().spec();
        let group = spec.group(group).and_then(|group| group.topology.as_ref());
        // The level of the group is the finer one.
        let narrow = group.and_then(|topology| topology.required.as_ref());
        let whole = spec.topology.as_ref();
        let whole = whole.and_then(|topology| topology.required.as_ref());
        let Some(level) = narrow.or(whole) else {
            return BTreeMap::new();
        };
        let (own, others): (Vec<_>, Vec<_>) = plan
            .assignments
            .iter()
            .partition(|assignment| narrow.is_none() || assignment.group == name);
        let mut nodes = own.into_iter().chain(others);
        let near = nodes.find_map(|assignment| {
            let node = NodeName::new(assignment.node.as_str());
            self.engine.domain_labels(level, &node)
        });
        near.unwrap_or_default()
    }
}
