//! Jobs before and after they are queued.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use trellis_api::TrainingJob;
use trellis_compiler::CompiledJob;
use trellis_gang::engine;
use trellis_gang::engine::AttemptState;
use trellis_gang::requirements::volumes::VolumeRequirements;
use trellis_scheduler::{LimitDraw, Time};
use trellis_simulate::ScriptJob;

use super::group_pods::surplus_units;

/// A job that is not queued.
/// An object that it needs is missing, or it is refused.
pub(super) struct UnqueuedJob {
    pub(super) job: TrainingJob,
    pub(super) runtime: Option<Duration>,
    pub(super) submitted: Time,
    pub(super) reason: String,
}

/// Builds a job for the engine and the simulation.
/// `joining` are the limits that its surplus pods count against.
pub(super) fn build_queued_job(
    compiled: &CompiledJob,
    waiting: &UnqueuedJob,
    volumes: VolumeRequirements,
    joining: &[LimitDraw],
) -> ScriptJob {
    let ticket = AttemptState {
        submitted: Timestamp::from_millisecond(waiting.submitted.as_millis()).unwrap_or_default(),
        volumes,
        ..AttemptState::default()
    };
    let gang = engine::gang_from_job(compiled, &ticket, &BTreeMap::new());
    let deadlines = compiled.job().spec().deadlines.as_ref();
    let limit = deadlines
        .and_then(|d| d.active_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs);
    ScriptJob {
        prediction_key: gang.id.to_string(),
        gang,
        runtime: waiting.runtime,
        limit,
        gpu_hour_limits: Vec::new(),
        surplus: surplus_units(compiled, &ticket, joining),
        restart: compiled.job().spec().restart.clone().unwrap_or_default(),
    }
}
