//! Applies QuotaPolicies to jobs, and counts used GPU-hours. The engine keeps the current usage of
//! the limits.

mod exceeded_limit;
mod gpu_hours;
mod ledger;
mod limits;
pub mod namespace_quota;
mod policy_check;

pub use exceeded_limit::find_exceeded_limit;
pub use gpu_hours::{GpuHourUsage, HOUR_SECONDS};
pub use ledger::{LedgerUsage, is_ledger_owned_by, read_ledger, read_own_ledger};
pub use limits::{
    JobLimits, LimitsReport, base_units, from_planned_limit, limit_name, to_counted_drawing,
    to_planned_limits,
};
pub use policy_check::{JobDemand, apply_policies, placed_job_limits};
