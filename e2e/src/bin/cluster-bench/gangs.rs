//! Gangs through the operator, from the first apply to the last pod.

use anyhow::Result;

use crate::bench::Bench;
use crate::ceiling;
use crate::jobs::Case;
use crate::row::Row;

/// Pods a second as a share of the ceilings, and what the operator used.
pub(crate) async fn measure(bench: &Bench, case: Case, ceiling: f64) -> Result<()> {
    let name = case.name();
    let own = ceiling::own_writes(bench, case).await?;
    bench.print(
        &Row::new(
            format!("{name}: bare client, all writes of the gangs"),
            own,
            "pods/s",
        )
        .of(ceiling),
    );
    let operator = bench.operator().await?;
    let before = operator.processor_seconds()?;
    let namespace = bench.namespace().await?;
    let took = bench.place(&namespace, case).await?;
    let rate = case.total() as f64 / took.as_secs_f64();
    let memory = operator.resident_bytes()? / 1_048_576.0;
    let processor = operator.processor_seconds()? - before;
    bench.clear(&namespace).await?;
    for row in [
        Row::new(name.clone(), rate, "pods/s").of(ceiling),
        Row::new(
            format!("{name}: of the ceiling for its own writes"),
            rate,
            "pods/s",
        )
        .of(own),
        Row::new(format!("{name}: resident"), memory, "MiB"),
        Row::new(format!("{name}: CPU"), processor, "s"),
    ] {
        bench.print(&row);
    }
    Ok(())
}
