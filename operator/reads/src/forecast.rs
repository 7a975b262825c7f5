//! Forecasts of the jobs after changes of the cluster.

use kube::Api;
use trellis_api::visibility::{Forecast, ForecastSpec, ForecastStatus};

use crate::visibility::create_object;
use crate::{ErrorHints, ReadError, ReadFailure, Reader};

/// How many times as long as another answer a forecast may take: the scheduler looks ahead twice, for up
/// to two seconds each, and may have to answer another question first.
const PATIENCE: u32 = 4;

/// Asks the scheduler for the forecast after these changes.
///
/// # Errors
/// If the scheduler does not answer, or refuses a change.
pub async fn ask_forecast(
    reader: &Reader,
    spec: ForecastSpec,
) -> Result<ForecastStatus, ReadError> {
    let api = Api::<Forecast>::all(reader.client.clone());
    let question = Forecast::new(spec.changes);
    let patience = reader
        .scheduler_timeout
        .map(|usual| usual.saturating_mul(PATIENCE));
    let asked = create_object(&api, &question, patience);
    let right = "the ClusterRole trellis-platform has it: create forecasts.visibility.trellis.dev";
    let answer = asked.await.map_err(|error| {
        error.into_read_error(&ErrorHints {
            rights: right.to_owned(),
            without_cluster: Some("with --snapshot FILE, the command needs no cluster"),
        })
    })?;
    let answer = answer.into_result(right)?;
    let status = answer.and_then(|answer| answer.status);
    status.ok_or_else(|| ReadError {
        failure: ReadFailure::Unavailable,
        message: anyhow::anyhow!(
            "the operator does not forecast changes: it is older than this program"
        ),
    })
}
