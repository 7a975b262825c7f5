//! Simulates recorded, generated or hand-written workloads with the operator's scheduling engine.
//!
//! Pure: the result depends only on the files' bytes and the seed.

mod gangs;
mod helios;
mod openb;
pub mod pattern;
mod pools;
mod random;
mod runner;
pub mod scenario;
mod summary;
mod table;

pub use gangs::{RACK, Workload};
pub use helios::{HeliosError, Jobs};
pub use openb::{Trace, run};
pub use pools::{Pool, parse as parse_pools};
pub use runner::{
    Change, Clock, Event, Expect, Expectation, ExpectedJobs, Held, Job, Options, PodChange,
    PodEvent, Record, RequiredLevel, Runtimes, Script, SurplusPod, Tell, run as run_script,
    seconds, why,
};
pub use summary::{DomainSummary, SizeRow, Summary};
pub use table::{Table, TableError};
