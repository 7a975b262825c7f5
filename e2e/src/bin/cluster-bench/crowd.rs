//! Many wait: how soon one more is told why.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::PostParams;
use trellis_api::{Reason, TrainingJob};
use trellis_e2e::wait::eventually;

use crate::bench::{APPLIES, Bench};
use crate::jobs;
use crate::refusal;
use crate::row::Row;

/// All of them have their reason by then.
const TOLD: Duration = Duration::from_secs(900);

/// The first gangs of whole nodes fill the cluster and the others wait; then one
/// comes that can never fit. What is there is left: to delete it takes minutes.
pub(crate) async fn measure(bench: &Bench, waiting: usize) -> Result<()> {
    let operator = bench.operator().await?;
    let namespace = bench.namespace().await?;
    let api: Api<TrainingJob> = namespace.api();
    let mut applies = Vec::with_capacity(waiting);
    for i in 0..waiting {
        let job = jobs::job(&format!("w-{i}"), 10, 8)?;
        let api = api.clone();
        applies.push(async move { api.create(&PostParams::default(), &job).await });
    }
    stream::iter(applies)
        .buffer_unordered(APPLIES)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let last = format!("w-{}", waiting.saturating_sub(1));
    eventually(TOLD, || async {
        let job = api.get_status(&last).await?;
        let told = job.status.and_then(|status| status.reason);
        anyhow::ensure!(told == Some(Reason::InsufficientCapacity), "{told:?}");
        Ok(())
    })
    .await?;
    let ms = refusal::median(
        &api,
        "never",
        bench.nodes.saturating_add(1),
        Reason::ExceedsCluster,
    );
    bench.print(&Row::new(
        format!("a gang that can never fit, {waiting} wait: to the reason in status"),
        ms.await?,
        "ms",
    ));
    let memory = operator.resident_bytes()? / 1_048_576.0;
    let name = format!("{waiting} jobs wait: resident");
    bench.print(&Row::new(name, memory, "MiB"));
    Ok(())
}
