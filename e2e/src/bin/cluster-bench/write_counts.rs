//! The operator's writes, counted by a proxy in front of the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use trellis_e2e::operator;
use trellis_e2e::proxy::Proxy;

use crate::bench::Bench;
use crate::jobs::BenchCase;
use crate::row::BenchRow;

/// Time after which the operator has written its last status. It never stops to renew its lease.
const SETTLE_TIME: Duration = Duration::from_secs(6);

/// Counts the writes per pod and per gang, by user agent and kind.
pub(crate) async fn measure(bench: &Bench, case: BenchCase) -> Result<()> {
    let proxy = Proxy::start(&bench.control_plane).await?;
    let token = operator::token(&bench.control_plane, "operator").await?;
    let kubeconfig = proxy.kubeconfig("bench", &token)?;
    let _operator = bench.start_operator_with_kubeconfig(&kubeconfig).await?;
    let namespace = bench.create_namespace().await?;
    tokio::time::sleep(SETTLE_TIME).await;
    proxy.reset_counts();
    bench.place_jobs(&namespace, case).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let counts = proxy.counts();
    let mut kinds: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut pods = 0;
    for (key, tally) in counts.iter() {
        if !key.is_write() || key.resource.starts_with("leases") {
            continue;
        }
        if key.resource == "pods" {
            pods += tally.requests;
        }
        let agent = key.user_agent.split('/').next().unwrap_or_default();
        let kind = format!("{} {}", key.verb, key.resource);
        *kinds.entry((agent.to_owned(), kind)).or_default() += tally.requests;
    }
    let name = case.name();
    let per_pod = pods as f64 / case.total_pods() as f64;
    bench.print_row(&BenchRow::new(
        format!("{name}: writes of pods"),
        per_pod,
        "a pod",
    ));
    for ((agent, kind), writes) in kinds.iter().filter(|((_, k), _)| !k.ends_with(" pods")) {
        let per_gang = *writes as f64 / case.jobs as f64;
        bench.print_row(&BenchRow::new(
            format!("{name}: {agent}: {kind}"),
            per_gang,
            "a gang",
        ));
    }
    bench.delete_jobs_and_pods(&namespace).await
}
