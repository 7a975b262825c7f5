//! The QuotaPolicies as the watch shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use trellis_api::{QuotaLedger, QuotaPolicy};
use trellis_gang::key::Key;
use trellis_gang::quota::{LedgerUsage, LimitsReport, read_own_ledger};
use trellis_policies::quota::{QueueQuota, QuotaPolicies};

use crate::watch::{Store, Undecodable};

/// The QuotaPolicies of the cluster.
#[derive(Debug, Default)]
pub struct QuotaSet {
    /// The objects.
    pub objects: Store<QuotaPolicy>,
    /// QuotaPolicies that do not decode, by name.
    pub undecodable_policies: RwLock<BTreeMap<String, Undecodable>>,
    /// The ledgers of used GPU time.
    pub ledgers: Store<QuotaLedger>,
    /// Ledgers that do not decode, by name.
    pub undecodable_ledgers: RwLock<BTreeMap<String, Undecodable>>,
    active: RwLock<ActivePolicies>,
    /// The part of the queue tree that quotas need. The policies of a queue also count the jobs of
    /// the queues below it.
    queues: RwLock<BTreeMap<String, QueueQuota>>,
    /// The last report of the limits, and its time.
    report: RwLock<Option<(Instant, Arc<LimitsReport>)>>,
}

/// How long a report is valid. It is renewed every two seconds.
const REPORT_VALIDITY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct ActivePolicies {
    version: u64,
    /// None: an object has changed, and the policies have not been read again.
    policies: Option<Arc<QuotaPolicies>>,
}

impl QuotaSet {
    /// Returns the current policies and their version, which changes with every change of a policy.
    #[must_use]
    pub fn active(&self) -> (u64, Arc<QuotaPolicies>) {
        {
            // Policies seldom change and every reconciliation of a job reads them, so this first
            // takes a read lock.
            let active = self.active.read();
            if let Some(policies) = &active.policies {
                return (active.version, policies.clone());
            }
        }
        let mut active = self.active.write();
        let version = active.version;
        let policies = active
            .policies
            .get_or_insert_with(|| Arc::new(self.load_policies()));
        (version, policies.clone())
    }

    /// Stores the current report of the limits.
    pub fn set_report(&self, report: Arc<LimitsReport>) {
        *self.report.write() = Some((Instant::now(), report));
    }

    /// Returns the latest report of the limits. None if there is no recent report, as in a replica
    /// that does not lead.
    #[must_use]
    pub fn report(&self) -> Option<Arc<LimitsReport>> {
        let standing = self.report.read();
        let (since, report) = standing.as_ref()?;
        (since.elapsed() < REPORT_VALIDITY).then(|| report.clone())
    }

    /// Returns the version of the current policies.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.active.read().version
    }

    /// Records that the spec of a policy was created, changed or deleted.
    pub fn invalidate(&self) {
        let mut active = self.active.write();
        active.version = active.version.saturating_add(1);
        active.policies = None;
    }

    /// Records the quota settings of a queue. None if the queue was deleted.
    pub fn set_queue(&self, queue: &str, now: Option<QueueQuota>) {
        let mut queues = self.queues.write();
        let before = match now.clone() {
            Some(now) => queues.insert(queue.to_owned(), now),
            None => queues.remove(queue),
        };
        drop(queues);
        if before != now {
            self.invalidate();
        }
    }

    fn load_policies(&self) -> QuotaPolicies {
        let objects = self.objects.all();
        let unreadable = self.undecodable_policies.read();
        let unreadable = unreadable.iter();
        let unreadable = unreadable.map(|(name, object)| (name.clone(), object.error.clone()));
        QuotaPolicies::load(objects.iter().map(|object| &**object), unreadable)
            .with_queues(self.queues.read().clone())
    }

    /// Returns the content of a policy's ledger. None if the policy owns no ledger.
    ///
    /// # Errors
    /// If the ledger of that name cannot be read. A ledger that does not decode counts as the
    /// policy's, because its owner is unknown.
    pub fn read_ledger(&self, policy: &QuotaPolicy) -> Result<Option<LedgerUsage>, String> {
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        if let Some(ledger) = self.undecodable_ledgers.read().get(name) {
            return Err(ledger.error.clone());
        }
        read_own_ledger(policy, self.ledgers.get(&Key::new("", name)).as_deref())
    }

    /// Returns the object of that name, if it decodes.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<QuotaPolicy>> {
        self.objects.get(&Key::new("", name))
    }
}
