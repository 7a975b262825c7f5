//! The QuotaPolicies as the watch shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use trellis_api::{QuotaLedger, QuotaPolicy};
use trellis_gang::key::Key;
use trellis_gang::quota::{Account, LimitsReport, account_of};
use trellis_policies::quota::{QueueQuota, QuotaPolicies};

use crate::watch::{Store, Undecodable};

/// The QuotaPolicies of the cluster.
#[derive(Debug, Default)]
pub struct QuotaSet {
    /// The objects.
    pub objects: Store<QuotaPolicy>,
    /// QuotaPolicies that do not decode, by name.
    pub unreadable: RwLock<BTreeMap<String, Undecodable>>,
    /// The ledgers of used GPU time.
    pub ledgers: Store<QuotaLedger>,
    /// Ledgers that do not decode, by name.
    pub undecodable_ledgers: RwLock<BTreeMap<String, Undecodable>>,
    active: RwLock<Active>,
    /// The queue tree, as far as quota needs it: the policies of a queue also count the jobs of the
    /// queues below.
    queues: RwLock<BTreeMap<String, QueueQuota>>,
    /// The last report of the limits, and its time.
    standing: RwLock<Option<(Instant, Arc<LimitsReport>)>>,
}

/// How long that report is valid: it is renewed every two seconds.
const STANDS_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Active {
    version: u64,
    /// None after an object has changed, until the policies are read again.
    policies: Option<Arc<QuotaPolicies>>,
}

impl QuotaSet {
    /// The current policies and their version, which changes with each of them.
    #[must_use]
    pub fn active(&self) -> (u64, Arc<QuotaPolicies>) {
        {
            // Policies change seldom and every reconciliation of a job reads them: a read lock is
            // enough.
            let active = self.active.read();
            if let Some(policies) = &active.policies {
                return (active.version, policies.clone());
            }
        }
        let mut active = self.active.write();
        let version = active.version;
        let policies = active.policies.get_or_insert_with(|| Arc::new(self.read()));
        (version, policies.clone())
    }

    /// Stores the current report of the limits.
    pub fn stand(&self, report: Arc<LimitsReport>) {
        *self.standing.write() = Some((Instant::now(), report));
    }

    /// The latest report of the limits. None if there is no recent one, as in a replica that does
    /// not lead.
    #[must_use]
    pub fn standing(&self) -> Option<Arc<LimitsReport>> {
        let standing = self.standing.read();
        let (since, report) = standing.as_ref()?;
        (since.elapsed() < STANDS_FOR).then(|| report.clone())
    }

    /// Version of the current policies.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.active.read().version
    }

    /// Records that a spec was created, changed or deleted.
    pub fn changed(&self) {
        let mut active = self.active.write();
        active.version = active.version.saturating_add(1);
        active.policies = None;
    }

    /// Records the quota settings of a queue. None if the queue was deleted.
    pub fn queue_is(&self, queue: &str, now: Option<QueueQuota>) {
        let mut queues = self.queues.write();
        let before = match now.clone() {
            Some(now) => queues.insert(queue.to_owned(), now),
            None => queues.remove(queue),
        };
        drop(queues);
        if before != now {
            self.changed();
        }
    }

    fn read(&self) -> QuotaPolicies {
        let objects = self.objects.all();
        let unreadable = self.unreadable.read();
        let unreadable = unreadable.iter();
        let unreadable = unreadable.map(|(name, object)| (name.clone(), object.error.clone()));
        QuotaPolicies::load(objects.iter().map(|object| &**object), unreadable)
            .with_queues(self.queues.read().clone())
    }

    /// The content of a policy's ledger. None if the policy has no ledger of its own.
    ///
    /// # Errors
    /// If the ledger of that name cannot be read. A ledger that does not decode counts as the
    /// policy's, because its owner is unknown.
    pub fn account_of(&self, policy: &QuotaPolicy) -> Result<Option<Account>, String> {
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        if let Some(ledger) = self.undecodable_ledgers.read().get(name) {
            return Err(ledger.error.clone());
        }
        account_of(policy, self.ledgers.get(&Key::new("", name)).as_deref())
    }

    /// The object of that name, if it decodes.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<QuotaPolicy>> {
        self.objects.get(&Key::new("", name))
    }
}
