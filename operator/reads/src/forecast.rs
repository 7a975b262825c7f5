//! Forecasts of the jobs after changes of the cluster.

use kube::Api;
use trellis_api::visibility::{Forecast, ForecastSpec, ForecastStatus};

use crate::visibility::ask_question;
use crate::{ErrorHints, ReadError, Reader};

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
    let right = "the ClusterRole trellis-platform has it: create forecasts.visibility.trellis.dev";
    let hints = ErrorHints {
        rights: right.to_owned(),
        without_cluster: Some("with --snapshot FILE, the command needs no cluster"),
    };
    let answer = ask_question(reader, &api, &question, &hints).await?;
    let status = answer.and_then(|answer| answer.status);
    status.ok_or_else(|| {
        let message = "the operator does not forecast changes: it is older than this program";
        ReadError::unavailable(message.to_owned())
    })
}
