//! Gangs through the operator, from the first apply to the last pod.

use anyhow::Result;

use crate::bench::Bench;
use crate::ceiling;
use crate::jobs::BenchCase;
use crate::row::BenchRow;

/// Measures the pods per second as a share of the ceilings, and the operator's resource usage.
pub(crate) async fn measure(bench: &Bench, case: BenchCase, ceiling: f64) -> Result<()> {
    let name = case.name();
    let own = ceiling::measure_gang_write_rate(bench, case).await?;
    bench.print_row(
        &BenchRow::new(
            format!("{name}: bare client, all writes of the gangs"),
            own,
            "pods/s",
        )
        .with_ceiling(ceiling),
    );
    let operator = bench.start_operator().await?;
    let before = operator.cpu_seconds()?;
    let namespace = bench.create_namespace().await?;
    let duration = bench.place_jobs(&namespace, case).await?;
    let rate = case.total_pods() as f64 / duration.as_secs_f64();
    let memory = operator.resident_bytes()? / 1_048_576.0;
    let processor = operator.cpu_seconds()? - before;
    bench.delete_jobs_and_pods(&namespace).await?;
    for row in [
        BenchRow::new(name.clone(), rate, "pods/s").with_ceiling(ceiling),
        BenchRow::new(
            format!("{name}: of the ceiling for its own writes"),
            rate,
            "pods/s",
        )
        .with_ceiling(own),
        BenchRow::new(format!("{name}: resident"), memory, "MiB"),
        BenchRow::new(format!("{name}: CPU"), processor, "s"),
    ] {
        bench.print_row(&row);
    }
    Ok(())
}
