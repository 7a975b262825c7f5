//! Used GPU time, as a QuotaLedger records it.

use std::collections::BTreeMap;

use trellis_api::QuotaPolicy;
use trellis_api::quantity::Amount;
use trellis_api::quota_ledger::QuotaLedger;
use trellis_policies::quota::{GpuTimeUsage, LimitHolder};

/// The content of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerUsage {
    /// Time until which it counts, in seconds since 1970.
    pub until: i64,
    /// GPU time by holder.
    pub holders: BTreeMap<LimitHolder, Vec<GpuTimeUsage>>,
}

/// Reads a ledger.
///
/// # Errors
/// If an amount does not parse, is negative or overflows: without such an entry its holder would
/// get hours back.
pub fn read_ledger(ledger: &QuotaLedger) -> Result<LedgerUsage, String> {
    let mut holders: BTreeMap<LimitHolder, Vec<GpuTimeUsage>> = BTreeMap::new();
    for (index, entry) in ledger.spec.entries.iter().enumerate() {
        let amount = entry.gpu_seconds.amount().map_err(|e| e.to_string());
        let seconds = amount.and_then(|amount| match amount.ceil_units() {
            Some(seconds) if amount >= Amount::ZERO => Ok(seconds),
            Some(_) => Err("is negative".to_owned()),
            None => Err("is too large".to_owned()),
        });
        let seconds = seconds.map_err(|why| format!("spec.entries[{index}].gpuSeconds {why}"))?;
        let holder = LimitHolder::from_status(entry.requester.as_deref());
        holders.entry(holder).or_default().push(GpuTimeUsage {
            start: entry.start.0.as_second(),
            gpu_seconds: i128::from(seconds),
        });
    }
    Ok(LedgerUsage {
        until: ledger.spec.until.0.as_second(),
        holders,
    })
}

/// Returns true if the policy owns the ledger. A policy from a file has no uid, and owns the ledger
/// of its name.
pub fn is_ledger_owned_by(ledger: &QuotaLedger, policy: &QuotaPolicy) -> bool {
    let Some(uid) = &policy.metadata.uid else {
        return true;
    };
    let mut owners = ledger.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == *uid)
}

/// Returns the content of the ledger of the policy's name, if the policy owns it.
///
/// # Errors
/// As for [`read_ledger`].
pub fn read_own_ledger(
    policy: &QuotaPolicy,
    ledger: Option<&QuotaLedger>,
) -> Result<Option<LedgerUsage>, String> {
    let own = ledger.filter(|ledger| is_ledger_owned_by(ledger, policy));
    own.map(read_ledger).transpose()
}
