//! Quotas: arithmetic on declared limits, without a policy language. An overflow is a refusal,
//! never a zero.
//!
//! [`QuotaPolicies`] determines for a job ([`QuotaRequest`]) why it may never run, and which limits
//! it counts against ([`QuotaDraw`]). The scheduler keeps the usage, because it reserves for the
//! whole gang at once or not at all. [`count_usage`] computes the usage from the existing jobs, and
//! [`GpuTimeMeter`] the GPU time used in a window.

mod active_policy;
mod gpu_meter;
mod limit_id;
mod limit_usage;
mod missing_flavors;
mod queue_quotas;
mod quota_policies;
mod quota_request;
mod quota_verdict;

pub use gpu_meter::{GpuTimeMeter, GpuTimeUsage};
pub use limit_id::{LimitHolder, LimitId, LimitedQuantity};
pub use limit_usage::{AllocatedAmount, CountedJob, count_usage};
pub use missing_flavors::missing_flavors;
pub use queue_quotas::QueueQuota;
pub use quota_policies::{QuotaPolicies, UnusableReason};
pub use quota_request::QuotaRequest;
pub use quota_verdict::{QuotaDraw, QuotaVerdict};
