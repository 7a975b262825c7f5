//! The openb workloads (Alibaba, cluster-trace-gpu-v2023) and the protocol that FGD was published
//! with (Weng et al., USENIX ATC '23): jobs arrive one after the other, none ends, and a job that
//! does not fit is dropped.

mod arrivals;
mod protocol;
mod trace;

#[cfg(test)]
mod tests;

pub use protocol::run_trace;
pub use trace::OpenbTrace;
