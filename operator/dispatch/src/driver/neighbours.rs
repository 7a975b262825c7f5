//! Anti-affinity of foreign pods against waiting gangs.

use std::collections::{BTreeMap, BTreeSet};

use trellis_gang::key::Key;
use trellis_gang::neighbours::Neighbour;
use trellis_gang::observed::Repulsion;
use trellis_scheduler::LabelDomain;

use super::{Driver, Inside};

impl Driver {
    /// Topology domains from which each group of a gang is kept out.
    pub(super) fn kept_out(&self, job: &Key) -> BTreeMap<String, BTreeSet<LabelDomain>> {
        let Some((state, run)) = self.gangs.get(job).and_then(|s| Some((s, s.run()?))) else {
            return BTreeMap::new();
        };
        let context = self.committer.context();
        let namespace = context
            .cache
            .namespace_labels(&job.namespace)
            .unwrap_or_default();
        let label = |node: &str, key: &str| {
            let node = context.cache.nodes.get(&Key::new("", node))?;
            node.metadata.labels.as_ref()?.get(key).cloned()
        };
        Neighbour::new(run.job.compiled(), &namespace, &state.actual)
            .kept_out(&context.cache.repulsions, label)
    }

    /// Waiting or nominated gangs that the term keeps out, now or until now.
    pub(super) fn concerned_by(&self, repulsion: &Repulsion) -> Vec<Key> {
        let context = self.committer.context();
        let waiting = self
            .gangs
            .iter()
            .filter(|(_, s)| matches!(s.inside, Inside::Waiting | Inside::Nominated));
        let concerned = waiting.filter(|(job, state)| {
            let namespace = context
                .cache
                .namespace_labels(&job.namespace)
                .unwrap_or_default();
            state.run().is_some_and(|run| {
                Neighbour::new(run.job.compiled(), &namespace, &state.actual)
                    .is_kept_out_by(repulsion)
            })
        });
        concerned.map(|(job, _)| job.clone()).collect()
    }
}
