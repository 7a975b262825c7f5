//! A pod beyond a gang, as the engine is to know it.

use std::collections::BTreeMap;

use tokio::time::Instant;
use trellis_api::pod_group::Plan;
use trellis_api::topology::{TopologyMode, TopologyRequest};
use trellis_scheduler::Gang;

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

    /// Where a gang must be together, whoever joins it is to be there too: the labels of its place.
    fn near(&self, run: &Run, plan: &Plan, group: &str) -> BTreeMap<String, String> {
        let name = group;
        let spec = run.job.compiled().job().spec();
        let group = spec.group(group).and_then(|group| group.topology.as_ref());
        let required = |t: &&TopologyRequest| t.mode() == TopologyMode::Required;
        // That of the group is the narrower one.
        let narrow = group.filter(required);
        let Some(topology) = narrow.or(spec.topology.as_ref().filter(required)) else {
            return BTreeMap::new();
        };
        let world = self.committer.world();
        let own = plan
            .assignments
            .iter()
            .find(|a| narrow.is_none() || a.group == name);
        let first = own.or(plan.assignments.first());
        let node = first.and_then(|a| world.nodes.get(&Key::new("", &a.node)));
        let labels = node.and_then(|node| node.metadata.labels.clone());
        let labels = labels.unwrap_or_default();
        let topologies = world.topologies.all();
        let levels = topologies.iter().find_map(|t| {
            let at = t.spec.levels.iter().position(|l| *l == topology.level)?;
            t.spec.levels.get(..=at).map(<[String]>::to_vec)
        });
        let levels = levels.unwrap_or_else(|| vec![topology.level.clone()]);
        let label = |level: String| Some((level.clone(), labels.get(&level)?.clone()));
        levels.into_iter().filter_map(label).collect()
    }
}
