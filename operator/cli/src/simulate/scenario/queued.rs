//! A job that is queued.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_compiler::CompiledJob;
use trellis_gang::engine;
use trellis_gang::engine::Ticket;
use trellis_gang::volumes::Volumes;
use trellis_scheduler::Draw;

use super::author::Waiting;
use super::pods;
use trellis_simulate::Job;

/// A job as the engine and the simulation have it. `joining` are the limits that its surplus
/// pods draw on.
pub(super) fn queued(
    compiled: &CompiledJob,
    waiting: &Waiting,
    volumes: Volumes,
    joining: &[Draw],
) -> Job {
    let ticket = Ticket {
        submitted: Timestamp::from_millisecond(waiting.submitted.as_millis()).unwrap_or_default(),
        volumes,
        ..Ticket::default()
    };
    let gang = engine::gang(compiled, &ticket, &BTreeMap::new());
    let deadlines = compiled.job().spec().deadlines.as_ref();
    let limit = deadlines
        .and_then(|d| d.active_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs);
    Job {
        runs_as: gang.id.to_string(),
        gang,
        runtime: waiting.runtime,
        limit,
        hours: Vec::new(),
        surplus: pods::surplus(compiled, &ticket, joining),
        restart: compiled.job().spec().restart.clone().unwrap_or_default(),
    }
}
