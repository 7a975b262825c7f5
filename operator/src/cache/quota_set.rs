//! The QuotaPolicies as the watch shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;
use trellis_api::{QuotaLedger, QuotaPolicy};
use trellis_policies::quota::{QueueQuota, QuotaPolicies};

use crate::cache::watch::{Store, Undecodable};
use crate::gang::key::Key;
use crate::gang::quota::{Account, LimitsReport, account_of};

/// The QuotaPolicies of the cluster.
#[derive(Debug, Default)]
pub struct QuotaSet {
    /// The objects.
    pub objects: Store<QuotaPolicy>,
    /// Those that do not decode, by name.
    pub unreadable: RwLock<BTreeMap<String, Undecodable>>,
    /// The ledgers of burnt GPU time.
    pub ledgers: Store<QuotaLedger>,
    /// Those that do not decode, by name.
    pub undecodable_ledgers: RwLock<BTreeMap<String, Undecodable>>,
    active: RwLock<Active>,
    /// What matters of queues: the policies of those above them count their jobs, too.
    queues: RwLock<BTreeMap<String, QueueQuota>>,
    /// How limits stood, and when.
    standing: RwLock<Option<(Instant, Arc<LimitsReport>)>>,
}

/// How long that is worth anything: it is told anew every two seconds.
const STANDS_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Active {
    version: u64,
    /// None: an object has changed since they were read.
    policies: Option<Arc<QuotaPolicies>>,
}

impl QuotaSet {
    /// The policies of now, and their version: another after each change.
    #[must_use]
    pub fn active(&self) -> (u64, Arc<QuotaPolicies>) {
        {
            // Each look at a job asks, and they seldom change.
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

    /// The limits stand like this now.
    pub(crate) fn stand(&self, report: Arc<LimitsReport>) {
        *self.standing.write() = Some((Instant::now(), report));
    }

    /// How the limits stood a moment ago. None: nobody can tell, as where we do not lead.
    #[must_use]
    pub fn standing(&self) -> Option<Arc<LimitsReport>> {
        let standing = self.standing.read();
        let (since, report) = standing.as_ref()?;
        (since.elapsed() < STANDS_FOR).then(|| report.clone())
    }

    /// Version of the policies of now.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.active.read().version
    }

    /// A spec is another, new or gone.
    pub(crate) fn changed(&self) {
        let mut active = self.active.write();
        active.version = active.version.saturating_add(1);
        active.policies = None;
    }

    /// A queue is like this now. None: it is gone.
    pub(crate) fn queue_is(&self, queue: &str, now: Option<QueueQuota>) {
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

    /// The content of the ledger of a policy. None: it has none of its own.
    ///
    /// # Errors
    /// If the ledger of its name cannot be read. The owner of one that does not decode is not
    /// known: it is taken for the policy.
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
