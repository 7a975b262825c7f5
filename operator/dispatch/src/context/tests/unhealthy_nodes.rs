//! Nodes that are declared unhealthy, and which of them are left.

use tokio::time::Instant;
use trellis_gang::observed::Leave;

use super::*;

impl Case {
    fn gpu_node(&self, name: &str, bad: &str) {
        let node: SlimNode = decoded(json!({
            "metadata": {"name": name, "uid": name},
            "status": {
                "allocatable": {"nvidia.com/gpu": "8"},
                "conditions": [{"type": "GpuMemWatch", "status": bad}],
            },
        }));
        self.watched.apply(Key::new("", name), node);
    }
}

#[test]
fn where_most_nodes_with_devices_fall_ill_nobody_leaves() {
    let case = Case::new();
    // Many nodes without devices hide nothing.
    for i in 0..20 {
        case.node(&format!("cpu-{i}"), "True");
    }
    for i in 0..4 {
        case.gpu_node(&format!("gpu-{i}"), "False");
    }
    let leave = || case.context.cache.may_leave("gpu-1", Instant::now());
    for i in 0..3 {
        case.gpu_node(&format!("gpu-{i}"), "True");
    }
    assert!(case.context.cache.why_unhealthy("gpu-1").is_some());
    assert!(matches!(leave(), Leave::PartialDisruption(_)));
    // More nodes come, and the same are a smaller part.
    for i in 4..6 {
        case.gpu_node(&format!("gpu-{i}"), "False");
    }
    assert_eq!(leave(), Leave::Now);
    case.context.cache.left("gpu-1", Instant::now());
    let second = case.context.cache.may_leave("gpu-0", Instant::now());
    assert!(matches!(second, Leave::After(_)), "{second:?}");
    // One that is gone counts no more.
    case.gpu_node("gpu-3", "True");
    Sink::<SlimNode>::delete(&*case.watched, &Key::new("", "gpu-5"), "gpu-5");
    let now = || case.context.cache.may_leave("gpu-0", Instant::now());
    assert!(matches!(now(), Leave::PartialDisruption(_)));
    case.gpu_node("gpu-2", "False");
    case.gpu_node("gpu-3", "False");
    assert!(matches!(now(), Leave::After(_)));
}

/// Nothing on the nodes themselves changes, so no other event would wake these jobs.
#[tokio::test]
async fn when_a_zone_is_well_enough_again_the_jobs_on_its_unhealthy_nodes_are_looked_at() {
    let case = Case::new();
    case.jobs(&[("a", "stays", &[])]).await;
    for i in 0..5 {
        case.gpu_node(&format!("gpu-{i}"), if i < 3 { "True" } else { "False" });
    }
    case.pod("stays", "gpu-0");
    case.sync();
    case.looked_at().await;
    case.gpu_node("gpu-2", "False");
    assert_eq!(case.context.work.next().await, Key::new("a", "stays"));
}
