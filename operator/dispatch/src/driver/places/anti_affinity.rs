//! Anti-affinity of foreign pods against waiting gangs.

use std::collections::{BTreeMap, BTreeSet};

use trellis_gang::AuthorizedAttempt;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::observed::AntiAffinityTerm;
use trellis_gang::requirements::closed_domains::TargetGang;
use trellis_scheduler::LabelDomain;

use crate::driver::{Driver, EngineState};

impl Driver {
    /// Returns the topology domains that are closed to each group of a gang.
    pub(in crate::driver) fn excluded_domains(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        admitted: &BTreeMap<String, AdmittedPod>,
    ) -> BTreeMap<String, BTreeSet<LabelDomain>> {
        let context = self.committer.context();
        let namespace = context
            .cache
            .namespace_labels(&job.namespace)
            .unwrap_or_default();
        let label = |node: &str, key: &str| {
            let node = context.cache.nodes.get(&Key::new("", node))?;
            node.metadata.labels.as_ref()?.get(key).cloned()
        };
        TargetGang::new(run.job.compiled(), &namespace, admitted)
            .closed_domains(&context.cache.repulsions.read(), label)
    }

    /// Returns the waiting or nominated gangs that the term keeps out, or has kept out until now.
    pub(in crate::driver) fn gangs_excluded_by(&self, repulsion: &AntiAffinityTerm) -> Vec<Key> {
        let context = self.committer.context();
        let waiting = self.gangs.iter().filter(|(_, s)| {
            matches!(
                s.engine_state,
                EngineState::Waiting | EngineState::Nominated
            )
        });
        let concerned = waiting.filter(|(job, state)| {
            let namespace = context
                .cache
                .namespace_labels(&job.namespace)
                .unwrap_or_default();
            state.run().is_some_and(|run| {
                TargetGang::new(run.job.compiled(), &namespace, &state.admitted)
                    .is_repelled_by(repulsion)
            })
        });
        concerned.map(|(job, _)| job.clone()).collect()
    }
}
