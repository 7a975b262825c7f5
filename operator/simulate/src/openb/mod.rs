//! The openb workloads (Alibaba, cluster-trace-gpu-v2023), and the protocol in which FGD was
//! evaluated (Weng et al., USENIX ATC '23). Jobs arrive one after the other and never end; a job
//! that does not fit is dropped.

mod arrivals;
mod protocol;
mod trace;

#[cfg(test)]
mod tests;

pub use protocol::run_trace;
pub use trace::OpenbTrace;
