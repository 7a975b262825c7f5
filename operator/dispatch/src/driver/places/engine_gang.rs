//! The gang of an attempt in the engine's form.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use trellis_gang::admitted_pod::AdmittedPod;
use trellis_gang::key::Key;
use trellis_gang::{AuthorizedAttempt, engine};
use trellis_scheduler::Gang;

use crate::context::Context;
use crate::driver::Driver;
use crate::planned_gang::{PlannedAttempt, PlannedGang};

/// Returns the flavors of which a job gets no new nodes, each with the reason: a policy denies them,
/// or the operator orders no nodes.
fn denied_flavors(context: &Context, run: &AuthorizedAttempt) -> BTreeMap<String, String> {
    if context.node_orders.namespace().is_some() {
        return run.job.denied_node_orders().clone();
    }
    let flavors = context.cache.flavors.all().into_iter();
    let growing = flavors.filter(|flavor| flavor.spec.provisioning.is_some());
    let denied = growing.map(|flavor| {
        let name = flavor.name_any();
        let message = format!(
            "the operator orders no new nodes of flavor {name:?}: install the chart with provisioning.enabled: true"
        );
        (name, message)
    });
    denied.collect()
}

impl Driver {
    /// Returns an attempt in the engine's form. `admitted` holds its pods after admission, by group,
    /// where they are known.
    pub(super) fn engine_gang(
        &self,
        job: &Key,
        run: &AuthorizedAttempt,
        admitted: &BTreeMap<String, AdmittedPod>,
        retry: Option<Timestamp>,
        excluded_nodes: Vec<String>,
    ) -> Gang {
        let ticket = engine::AttemptState {
            submitted: run.attempt.submitted,
            not_before: run.attempt.not_before.max(retry),
            excluded_nodes,
            preempted: run.preempted,
            never_preempts: run.never_preempts,
            volumes: run.volumes.clone(),
            closed_domains: self.excluded_domains(job, run, admitted),
            exclusive_node_values: self.exclusive_node_values(job),
            denied_flavors: denied_flavors(self.committer.context(), run),
        };
        let gang = engine::gang_from_job(run.job.compiled(), &ticket, admitted);
        self.with_prediction(job, gang)
    }

    /// Returns the gang of an attempt that is not submitted, and the quotas of its namespace. Admission
    /// has not seen its pods.
    pub(in crate::driver) fn plan_gang(&self, planned: &PlannedAttempt) -> PlannedGang {
        let run = &planned.run;
        let job = run.job.compiled().job();
        let key = Key::new(job.namespace(), job.name());
        let excluded_nodes = run.avoided_nodes(true).collect();
        let mut gang = self.engine_gang(&key, run, &BTreeMap::new(), None, excluded_nodes);
        gang.draws = planned.limits.to_draws();
        PlannedGang {
            gang,
            quotas: self.committer.quotas_in(&key.namespace),
            promised: self.committer.other_demands(&key),
        }
    }
}
