//! Tests that no gang waits for ever: one gang, and an endless stream of small gangs that come
//! after it, with many other obstacles.

use std::time::Duration;

use crate::backfill::runs::{SimulatedGang, SimulatedPod, run_jobs_with_external_pods};
use crate::backfill::{MINUTE, gpu_gang};
use crate::common::*;
use crate::queues::{flavor, gpu_quota};
use proptest::prelude::*;
use trellis_scheduler::{
    Engine, FlavorName, FlavorQuotas, Gang, Queue, QueueName, ResourceGroup, ResourceName,
};

/// The obstacles of the gang.
#[derive(Clone, Debug)]
struct StarvationCase {
    /// True if its queue lends its quota to the stream, which has no quota.
    lent: bool,
    /// True if its flavor is one of two that the stream may use.
    flavors: bool,
    /// The number of gangs before it that cannot start while an external pod exists.
    hopeless_gangs: usize,
    /// True if external pods come and go.
    external_pods: bool,
    /// The minutes of each run, if the engine knows them.
    reported_minutes: Option<i64>,
    preemptible: bool,
    /// The number of pods that it requests.
    pods: u32,
    gpus_per_pod: i64,
}

fn any_starvation_case() -> impl Strategy<Value = StarvationCase> {
    let flags = (
        prop::bool::ANY,
        prop::bool::ANY,
        0..3_usize,
        prop::bool::ANY,
    );
    let told = prop_oneof![Just(None), Just(Some(3)), Just(Some(8))];
    (flags, told, prop::bool::ANY, 1..3_u32, 4..9_i64).prop_map(
        |((lent, flavors, hopeless, strangers), told, preemptible, pods, each)| StarvationCase {
            lent,
            flavors,
            hopeless_gangs: hopeless,
            external_pods: strangers,
            reported_minutes: told,
            preemptible,
            pods,
            gpus_per_pod: each,
        },
    )
}

/// Returns an engine with four nodes, two of each flavor.
fn engine_for_case(way: &StarvationCase) -> Engine {
    let of = |at: usize| {
        let product = ["a", "b"][at % 2];
        label(gpu_node(&format!("n{at:02}"), 8), "gpu", product)
    };
    let mut engine = engine((0..4).map(of));
    let names: &[&str] = if way.flavors {
        &["a", "b"]
    } else {
        &["default"]
    };
    let queue = |name: &str, parent: Option<&str>, nominal| {
        let offers = |flavor: &&str| FlavorQuotas {
            flavor: FlavorName::new(*flavor),
            quotas: [(GPU, nominal), ("cpu", 1 << 40)]
                .map(|(resource, nominal)| (ResourceName::new(resource), gpu_quota(nominal)))
                .into(),
        };
        Queue {
            parent: parent.map(QueueName::new),
            resource_groups: vec![ResourceGroup {
                flavors: names.iter().map(offers).collect(),
            }],
            ..Queue::new(QueueName::new(name))
        }
    };
    for name in names {
        if way.flavors {
            engine.apply_flavor(flavor(name));
        }
    }
    // Quota covers all GPUs of each flavor.
    let all = if way.flavors { 16 } else { 32 };
    engine.apply_queue(queue("root", None, 0));
    engine.apply_queue(queue("default", Some("root"), all));
    engine.apply_queue(queue(
        "stream",
        Some("root"),
        if way.lent { 0 } else { all },
    ));
    engine
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn no_gang_waits_forever(way in any_starvation_case()) {
        let mut engine = engine_for_case(&way);
        let told = way.reported_minutes.map(|m| Duration::from_millis(u64::try_from(m * MINUTE).unwrap()));
        let mut jobs = Vec::new();
        for i in 0..400_i64 {
            let comes = i * MINUTE / 4;
            let mut gang = gpu_gang(&format!("s{i:04}"), 1 + i % 2, None);
            (gang.submitted, gang.runtime, gang.preemptible) = (ms(comes), told, way.preemptible);
            gang.queue = QueueName::new(if way.lent { "stream" } else { "default" });
            let runs = MINUTE * way.reported_minutes.unwrap_or(4 + i % 5);
            jobs.push(SimulatedGang { gang, arrives_at: comes, runs_for: runs });
        }
        let mut waits = |name: &str, pods, each: i64, comes: i64| {
            let mut gang = Gang { priority: 5, ..workers(name, pods, gpu(1, each)) };
            (gang.submitted, gang.runtime) = (ms(comes), told);
            if way.flavors && name == "target" {
                gang.groups[0].flavors = vec![FlavorName::new("a")];
            }
            jobs.push(SimulatedGang { gang, arrives_at: comes, runs_for: 5 * MINUTE });
        };
        for i in 0..way.hopeless_gangs {
            waits(&format!("hopeless-{i}"), 4, 8, 19 * MINUTE);
        }
        waits("target", way.pods, way.gpus_per_pod, 20 * MINUTE);
        let mut strangers = Vec::new();
        let mut visits = |node: i64, gpus, comes, goes| strangers.push(SimulatedPod {
            node: format!("n{node:02}"),
            request: gpu(1, gpus),
            arrives_at: comes,
            leaves_at: goes,
        });
        if way.hopeless_gangs > 0 {
            visits(1, 1, 0, None);
        }
        if way.external_pods {
            for i in 1..40 {
                visits(i % 4, 2, i * 7 * MINUTE, Some((i * 7 + 3) * MINUTE));
            }
        }
        let story = run_jobs_with_external_pods(&mut engine, jobs, &strangers, 100 * MINUTE);
        let started = story.started.get(&id("target")).map(|at| at / MINUTE);
        prop_assert!(started.is_some_and(|at| at <= 90), "{:?}", started);
        prop_assert!(story.started.len() > 150, "{}", story.started.len());
    }
}
