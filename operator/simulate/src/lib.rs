//! Simulates recorded, generated or hand-written workloads with the operator's scheduling engine.
//!
//! Pure: the result depends only on the files' bytes and the seed.

mod csv_table;
mod gang_workload;
mod helios;
pub mod name_pattern;
mod openb;
mod pools;
mod random;
mod repacking;
mod runner;
pub mod scenario;
mod summary;

pub use csv_table::{CsvTable, TableError};
pub use gang_workload::{GangWorkload, PoolGrowth, RACK};
pub use helios::{HeliosError, HeliosTrace};
pub use openb::{OpenbTrace, run_trace};
pub use pools::{Pool, parse_pools};
pub use repacking::RepackingSummary;
pub use runner::{
    AutoscalerSettings, BackfillRuntimeSource, Expectations, ExpectedJobs, JobEvent,
    JobEventRecord, NodeEvent, NodeEventRecord, PodChange, RecordClock, RecordSink, RequiredLevel,
    ScriptChange, ScriptJob, ScriptPodEvent, ScriptSurplusUnit, SimulationOptions,
    SimulationRecord, SimulationScript, WithheldJob, format_explanation, run_script, to_seconds,
};
pub use summary::{DomainSummary, ExpectationResult, NodeSummary, SimulationSummary, SizeRow};
