//! Verdicts of quota policies, the recount, and the meter.

mod subjects;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use trellis_api::quantity::Amount;
use trellis_api::quota_policy::{QuotaEnforcement, QuotaPolicy};
use trellis_api::{Quantity, QueueSpec};
use trellis_policies::quota::{
    AllocatedAmount, CountedJob, GpuTimeMeter, GpuTimeUsage, LimitedQuantity, QueueQuota,
    QuotaPolicies, QuotaRequest, QuotaVerdict, UnusableReason, count_usage,
};

fn policy(name: &str, spec: &Value) -> QuotaPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

/// A job of 2 pods with 8 GPUs each, and the words to make it another.
struct QuotaJob {
    labels: BTreeMap<String, String>,
    queue: QueueSpec,
    account: Option<&'static str>,
    requester: Option<&'static str>,
    total: BTreeMap<String, Option<Amount>>,
    runtime: Option<i64>,
}

impl QuotaJob {
    fn new() -> Self {
        let queue = json!({"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [
            {"name": "a", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 64}]},
            {"name": "b", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 33}]},
        ]}]});
        let amount = |text: &str| Quantity::new(text).amount().ok();
        Self {
            labels: BTreeMap::from([("trellis.dev/team".to_owned(), "vision".to_owned())]),
            queue: serde_json::from_value(queue).unwrap(),
            account: None,
            requester: Some("alice"),
            total: BTreeMap::from([
                ("nvidia.com/gpu".to_owned(), amount("16")),
                ("cpu".to_owned(), amount("192")),
            ]),
            runtime: None,
        }
    }

    fn as_request<'a>(&'a self) -> QuotaRequest<'a> {
        QuotaRequest {
            namespace: "team-a",
            namespace_labels: &self.labels,
            queue: "research",
            queue_spec: &self.queue,
            service_account: self.account,
            requester: self.requester,
            total: &self.total,
            pods: 2,
            gpus: 16,
            runtime_seconds: self.runtime,
        }
    }

    fn evaluate(&self, spec: &Value) -> QuotaVerdict {
        let policies = QuotaPolicies::load([&policy("p", spec)], []);
        assert_eq!(policies.unusable(), [], "{spec}");
        policies.evaluate(&self.as_request())
    }
}

/// Half of the nominal quota of the whole tree, for all of its jobs together.
#[test]
fn percent_of_queue_includes_the_nominal_quota_of_child_queues() {
    let gpu = "nvidia.com/gpu";
    let of = |parent: Option<&str>, nominal: u32| {
        let quotas = json!([{"name": gpu, "nominalQuota": nominal}]);
        let groups =
            json!([{"coveredResources": [gpu], "flavors": [{"name": "a", "resources": quotas}]}]);
        let spec = json!({"parentName": parent, "resourceGroups": groups});
        QueueQuota::from(&serde_json::from_value::<QueueSpec>(spec).unwrap())
    };
    let queues = [
        ("all", of(None, 100)),
        ("research", of(Some("all"), 64)),
        ("prod", of(Some("all"), 32)),
        ("elsewhere", of(None, 1000)),
    ];
    let queues = queues.map(|(name, quota)| (name.to_owned(), quota));
    let limit = json!({"resource": gpu, "percentOfQueue": 50});
    let spec = json!({"subject": {"queueName": "all"}, "limits": {"resources": [limit]}});
    let policies = QuotaPolicies::load([&policy("p", &spec)], []).with_queues(queues.into());
    let draws = policies.evaluate(&QuotaJob::new().as_request()).draws;
    let what = LimitedQuantity::Resource {
        flavor: None,
        resource: gpu.to_owned(),
        queue: Some("all".to_owned()),
    };
    let drawn: Vec<_> = draws
        .into_iter()
        .map(|d| (d.limit.quantity, d.max))
        .collect();
    assert_eq!(drawn, [(what, Amount::from_units(98))]);
}

#[test]
fn percent_of_queue_rounds_down_the_share_of_nominal_quota() {
    let max = |limit: Value| {
        let verdict =
            QuotaJob::new().evaluate(&json!({"subject": {}, "limits": {"resources": [limit]}}));
        let draw = verdict.draws.into_iter().next();
        draw.map(|draw| (draw.limit.quantity, draw.max))
    };
    let of = |flavor: Option<&str>, queue: Option<&str>| LimitedQuantity::Resource {
        flavor: flavor.map(str::to_owned),
        resource: "nvidia.com/gpu".to_owned(),
        queue: queue.map(str::to_owned),
    };
    let gpu = "nvidia.com/gpu";
    assert_eq!(
        max(json!({"resource": gpu, "percentOfQueue": 25})),
        Some((of(None, Some("research")), Amount::from_millis(24_250)))
    );
    assert_eq!(
        max(json!({"resource": gpu, "flavor": "b", "percentOfQueue": 100})),
        Some((of(Some("b"), Some("research")), Amount::from_units(33)))
    );
    assert_eq!(
        max(json!({"resource": gpu, "max": "4"})),
        Some((of(None, None), Amount::from_units(4)))
    );
    assert_eq!(
        max(json!({"resource": "rdma/hca", "percentOfQueue": 25})),
        None
    );
    assert_eq!(
        max(json!({"resource": gpu, "flavor": "c", "percentOfQueue": 25})),
        None
    );
}

#[test]
fn job_beyond_a_job_limit_is_denied_or_warned() {
    for (limits, words) in [
        (
            json!({"podsPerJob": 1}),
            "the job has 2 pods, and podsPerJob is 1",
        ),
        (
            json!({"gpusPerJob": 15}),
            "the job has 16 GPUs, and gpusPerJob is 15",
        ),
        (
            json!({"runtimeSecondsPerJob": 60}),
            "the job may run for ever, and runtimeSecondsPerJob is 60",
        ),
        (
            json!({"resources": [{"resource": "nvidia.com/gpu", "max": 15}]}),
            "the job asks for 16 nvidia.com/gpu, of which 15 may be held",
        ),
        (
            json!({"resources": [{"resource": "nvidia.com/gpu", "percentOfQueue": 0}]}),
            "of which 0 may be held",
        ),
    ] {
        for enforcement in ["Queue", "Deny", "Warn"] {
            let spec = json!({"subject": {}, "limits": limits, "enforcement": enforcement});
            let verdict = QuotaJob::new().evaluate(&spec);
            let (list, other) = match enforcement {
                "Warn" => (verdict.warnings, verdict.refusals),
                _ => (verdict.refusals, verdict.warnings),
            };
            assert_eq!(other, [], "{enforcement} {limits}");
            let told: Vec<_> = list.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains(words), "{told:?}");
            assert!(told[0].contains("quota policy \"p\""), "{told:?}");
        }
    }
    let mut job = QuotaJob::new();
    job.runtime = Some(60);
    let runtime = |max: i64| json!({"subject": {}, "limits": {"runtimeSecondsPerJob": max}});
    assert_eq!(job.evaluate(&runtime(60)), QuotaVerdict::default());
    assert_eq!(job.evaluate(&runtime(59)).refusals.len(), 1);
    // An amount that overflows exceeds every limit and never counts as zero.
    job.total.insert("nvidia.com/gpu".to_owned(), None);
    let most = json!({"subject": {}, "limits": {"resources": [{"resource": "nvidia.com/gpu", "max": "8E"}]}});
    assert_eq!(job.evaluate(&most).refusals.len(), 1);
}

#[test]
fn unusable_quota_policy_is_reported_by_name() {
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    let limits = json!({"runningJobs": 1});
    let objects = [
        policy("none", &json!({"subject": {}, "limits": {}})),
        policy(
            "selector",
            &json!({"subject": {"namespaceSelector": selector}, "limits": limits}),
        ),
        policy(
            "negative",
            &json!({"subject": {}, "limits": {"runningJobs": -1}}),
        ),
        policy(
            "overflow",
            &json!({"subject": {}, "limits": {"resources": [{"resource": "cpu", "max": "9e99"}]}}),
        ),
        policy("good", &json!({"subject": {}, "limits": limits})),
    ];
    let unreadable = ("odd".to_owned(), "invalid type".to_owned());
    let policies = QuotaPolicies::load(&objects, [unreadable]);
    let named: Vec<_> = policies
        .unusable()
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(named, ["negative", "none", "odd", "overflow", "selector"]);
    assert_eq!(policies.unusable()[4].1, UnusableReason::Selector);
    let told = policies.unusable()[0].1.to_string();
    assert!(
        told.contains("spec.limits.runningJobs: must be 0 to"),
        "{told}"
    );
    assert_eq!(
        policies.evaluate(&QuotaJob::new().as_request()).draws.len(),
        1,
        "the good one counts"
    );
}

#[test]
fn usage_counts_placed_and_pending_jobs() {
    let spec = json!({"subject": {}, "limits": {
        "runningJobs": 9, "queuedJobs": 9, "gpuHours": {"limit": 1, "windowHours": 24},
        "resources": [
            {"resource": "nvidia.com/gpu", "max": 64},
            {"resource": "nvidia.com/gpu", "flavor": "a", "max": 64},
        ],
    }});
    let draws = QuotaJob::new().evaluate(&spec).draws;
    assert!(
        draws
            .iter()
            .all(|draw| draw.enforcement == QuotaEnforcement::Queue)
    );
    let held = |flavor: &str, amount: Option<i64>| AllocatedAmount {
        flavor: flavor.to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        amount: amount.map(Amount::from_units),
    };
    let (one, two) = (
        [held("a", Some(8)), held("b", Some(8))],
        [held("b", Some(4))],
    );
    let placed = |held| CountedJob {
        draws: &draws,
        amounts: Some(held),
    };
    let waits = CountedJob {
        draws: &draws,
        amounts: None,
    };
    let used = count_usage([placed(&one[..]), placed(&two[..]), waits]);
    let told: Vec<_> = used
        .iter()
        .map(|(limit, used)| {
            (
                limit.quantity.to_string(),
                used.and_then(Amount::ceil_units),
            )
        })
        .collect();
    let expected = [
        ("runningJobs", Some(2)),
        ("queuedJobs", Some(1)),
        ("gpuHours", Some(0)),
        ("nvidia.com/gpu", Some(20)),
        ("a/nvidia.com/gpu", Some(8)),
    ];
    assert_eq!(told, expected.map(|(what, used)| (what.to_owned(), used)));
    // A sum with an overflowing amount overflows.
    let odd = [held("b", None)];
    let used = count_usage([placed(&odd[..])]);
    assert_eq!(used.values().filter(|used| used.is_none()).count(), 1);
}

const HOUR: i64 = 3600;

#[test]
fn meter_counts_gpu_time_inside_its_window() {
    let mut meter = GpuTimeMeter::new(48, 0);
    meter.set_gpus(8, 0);
    meter.set_gpus(0, 10 * HOUR);
    assert_eq!(meter.used_gpu_seconds(), i128::from(80 * HOUR));
    meter.set_gpus(16, 20 * HOUR);
    meter.advance(21 * HOUR);
    assert_eq!(meter.used_gpu_seconds(), i128::from(96 * HOUR));
    meter.set_gpus(0, 21 * HOUR);
    assert_eq!(meter.time_below(i128::from(96 * HOUR)), Some(49 * HOUR));
    assert_eq!(meter.time_below(i128::from(97 * HOUR)), Some(21 * HOUR));
    assert_eq!(meter.time_below(0), None);
    // The first part is out of the window.
    meter.advance(49 * HOUR);
    assert_eq!(meter.used_gpu_seconds(), i128::from(88 * HOUR));
    meter.advance(1000 * HOUR);
    assert_eq!(meter.used_gpu_seconds(), 0);
    // A clock that goes back changes no usage.
    meter.set_gpus(8, 900 * HOUR);
    meter.advance(950 * HOUR);
    assert_eq!(meter.used_gpu_seconds(), 0);
}

#[test]
fn meter_advances_over_a_long_gap_in_bounded_time() {
    let begun = std::time::Instant::now();
    for until in [i64::MIN, -62_135_596_800, 0] {
        let mut meter = GpuTimeMeter::resume(1, until, []);
        meter.set_gpus(8, until);
        meter.advance(500_000 * HOUR);
        let (least, most) = (8 * HOUR, 8 * (HOUR + HOUR / 48));
        let used = meter.used_gpu_seconds();
        assert!(
            (i128::from(least)..=i128::from(most)).contains(&used),
            "{until}: {used}"
        );
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}

proptest! {
    /// For any usage and any interruption, the meter reports at least the plain sum over the
    /// window.
    #[test]
    fn meter_never_undercounts_and_overcounts_by_at_most_a_part(
        changes in prop::collection::vec((0_i64..5000, 0_i64..64), 1..40),
        cut in 0_usize..40,
    ) {
        let window = 48;
        let (length, part) = (48 * HOUR, HOUR);
        let mut meter = GpuTimeMeter::new(window, 0);
        let mut now = 0;
        let mut spans: Vec<(i64, i64, i64)> = Vec::new();
        let mut rate = 0;
        for (i, (wait, gpus)) in changes.into_iter().enumerate() {
            let before = now;
            now += wait;
            spans.push((before, now, rate));
            meter.set_gpus(gpus, now);
            rate = gpus;
            if i == cut {
                // The operator restarts: current usage is set again.
                let parts: Vec<GpuTimeUsage> = meter.parts().collect();
                meter = GpuTimeMeter::resume(window, meter.counted_until(), parts);
                meter.set_gpus(gpus, now);
            }
            let within = |oldest: i64| -> i128 {
                let spans = spans.iter();
                spans.map(|(from, to, gpus)| i128::from((to - (*from).max(oldest)).max(0) * gpus)).sum()
            };
            prop_assert!(meter.used_gpu_seconds() >= within(now - length));
            prop_assert!(meter.used_gpu_seconds() <= within(now - length - part));
        }
    }
}
