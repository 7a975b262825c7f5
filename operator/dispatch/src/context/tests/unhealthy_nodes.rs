//! Unhealthy nodes, and the decisions to evict gangs from them.

use tokio::time::Instant;
use trellis_gang::observed::EvictionDecision;

use super::*;

impl ContextFixture {
    fn gpu_node(&self, name: &str, unhealthy: &str) {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name},
            "status": {
                "allocatable": {"nvidia.com/gpu": "8"},
                "conditions": [{"type": "GpuMemWatch", "status": unhealthy}],
            },
        }));
        self.sink.apply(Key::new("", name), node);
    }
}

#[test]
fn gangs_stay_when_most_device_nodes_become_unhealthy() {
    let case = ContextFixture::new();
    // Nodes without devices do not affect the result.
    for i in 0..20 {
        case.node(&format!("cpu-{i}"), "True");
    }
    for i in 0..4 {
        case.gpu_node(&format!("gpu-{i}"), "False");
    }
    let decide = || {
        case.context
            .cache
            .eviction_decision("gpu-1", Instant::now())
    };
    for i in 0..3 {
        case.gpu_node(&format!("gpu-{i}"), "True");
    }
    assert!(case.context.cache.unhealthy_reason("gpu-1").is_some());
    assert!(matches!(decide(), EvictionDecision::PartialDisruption(_)));
    // With more nodes, the share of unhealthy nodes is smaller.
    for i in 4..6 {
        case.gpu_node(&format!("gpu-{i}"), "False");
    }
    assert_eq!(decide(), EvictionDecision::Now);
    case.context.cache.record_eviction("gpu-1", Instant::now());
    let second = case
        .context
        .cache
        .eviction_decision("gpu-0", Instant::now());
    assert!(matches!(second, EvictionDecision::After(_)), "{second:?}");
    // A deleted node does not count.
    case.gpu_node("gpu-3", "True");
    Sink::<SlimNode>::delete(&*case.sink, &Key::new("", "gpu-5"), "gpu-5");
    let decide_gpu_0 = || {
        case.context
            .cache
            .eviction_decision("gpu-0", Instant::now())
    };
    assert!(matches!(
        decide_gpu_0(),
        EvictionDecision::PartialDisruption(_)
    ));
    case.gpu_node("gpu-2", "False");
    case.gpu_node("gpu-3", "False");
    assert!(matches!(decide_gpu_0(), EvictionDecision::After(_)));
}

/// The nodes themselves do not change, so no other event would wake these jobs.
#[tokio::test]
async fn jobs_on_unhealthy_nodes_are_requeued_when_their_zone_recovers() {
    let case = ContextFixture::new();
    case.jobs(&[("a", "stays", &[])]).await;
    for i in 0..5 {
        case.gpu_node(&format!("gpu-{i}"), if i < 3 { "True" } else { "False" });
    }
    case.pod("stays", "gpu-0");
    case.sync();
    case.requeued_jobs().await;
    case.gpu_node("gpu-2", "False");
    assert_eq!(case.context.work_queue.next().await, Key::new("a", "stays"));
}
