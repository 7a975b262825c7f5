//! The core ResourceQuotas of the jobs' namespaces. The operator checks them for a whole gang before
//! it creates the first pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use trellis_api::Reason;
use trellis_compiler::CompiledJob;
use trellis_gang::JobHold;
use trellis_gang::journal::open_plan_demand::OpenPlan;
use trellis_gang::key::Key;
use trellis_gang::quota::namespace_quota::{QuotaDemand, find_exceeded_quota};

/// The quotas, and the amounts that starting gangs will use.
#[derive(Debug, Default)]
pub struct NamespaceQuotas {
    /// The quotas by namespace.
    pub quotas: BTreeMap<Arc<str>, Vec<ResourceQuota>>,
    /// The pods that gangs have not created yet, by namespace: gangs that start, or have new nodes on
    /// order.
    pub promised: BTreeMap<Arc<str>, Vec<QuotaDemand>>,
}

impl NamespaceQuotas {
    /// Starts a gang that has a placement.
    ///
    /// # Errors
    /// If a quota has no room for the whole gang.
    pub fn start_gang(&mut self, job: &Key, compiled: &CompiledJob) -> Result<(), JobHold> {
        self.check_gang(job, compiled)?;
        let promised = self.promised.entry(job.namespace.clone()).or_default();
        promised.push(OpenPlan::job_demand(compiled));
        Ok(())
    }

    /// Checks the quotas for a gang.
    ///
    /// # Errors
    /// If a quota has no room for the whole gang.
    pub fn check_gang(&self, job: &Key, compiled: &CompiledJob) -> Result<(), JobHold> {
        let ask = OpenPlan::job_demand(compiled);
        let quotas = self.quotas.get(&job.namespace).into_iter().flatten();
        let promised = self.promised.get(&job.namespace);
        let promised = promised.map_or(&[][..], Vec::as_slice);
        match find_exceeded_quota(quotas, &ask, promised) {
            Some(message) => Err(JobHold::waiting(Reason::ResourceQuotaExceeded, message)),
            None => Ok(()),
        }
    }
}
