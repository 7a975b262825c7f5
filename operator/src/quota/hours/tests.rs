use serde_json::{Value, json};
use trellis_api::QuotaPolicy;

use super::*;
use crate::key::Key;
use crate::quota::QuotaSet;

const START: i64 = 1_000 * 3600;

fn quotas(status: &Value) -> QuotaSet {
    let object: QuotaPolicy = serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "1"},
        "spec": {"subject": {}, "limits": {"gpuHours": {"limit": 16, "windowHours": 48}}},
        "status": status,
    }))
    .unwrap();
    let quotas = QuotaSet::default();
    quotas.objects.observed(Key::new("", "p"), object);
    quotas
}

fn limit(user: &str) -> LimitId {
    LimitId {
        policy: "p".to_owned(),
        holder: Holder::named(Some(user)),
        what: What::GpuHours,
    }
}

fn at(hours: i64) -> i64 {
    START.saturating_add(hours.saturating_mul(3600))
}

#[test]
fn what_is_burnt_closes_the_limit_until_the_window_has_moved_on() {
    let (_, policies) = quotas(&json!({})).active();
    let mut hours = Hours::default();
    let mut gate = |gpus: i64, hour: i64| {
        let held = [(limit("alice"), gpus)];
        let gates = hours.count(&policies, held, at(hour));
        (
            gates[0].1,
            hours.next(&policies).map(|t| (t - START) / 3600),
        )
    };
    // 8 GPUs burn 16 hours in two.
    assert_eq!(gate(8, 0), (None, Some(2)));
    assert_eq!(gate(8, 1), (None, Some(2)));
    let (closed, next) = gate(8, 2);
    assert_eq!((closed, next), (Some(Some(at(49))), Some(49)));
    // What runs goes on, and the time is told anew once it has come.
    assert_eq!(gate(8, 3).0, Some(Some(at(49))));
    assert_eq!(gate(0, 4).0, Some(Some(at(49))));
    assert_eq!(gate(0, 49).0, Some(Some(at(51))));
    assert_eq!(gate(0, 51), (None, None));
    assert_eq!(gate(0, 100), (None, None));
    assert_eq!(
        hours.burnt().count(),
        0,
        "nothing is kept of who burns nothing"
    );
}

#[test]
fn a_restart_forgets_nothing_and_what_ran_meanwhile_is_counted() {
    let (_, policies) = quotas(&json!({})).active();
    let mut hours = Hours::default();
    hours.count(&policies, [(limit("alice"), 8)], at(0));
    hours.count(&policies, [(limit("alice"), 8)], at(1));
    let parts: Vec<Value> = hours
        .burnt()
        .flat_map(|(_, _, parts)| parts)
        .map(|part| {
            let start = k8s_openapi::jiff::Timestamp::from_second(part.start).unwrap();
            let start = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(start);
            json!({"requester": "alice", "start": start, "gpuSeconds": part.gpu_seconds.to_string()})
        })
        .collect();
    let until = k8s_openapi::jiff::Timestamp::from_second(at(1)).unwrap();
    let until = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(until);
    let quotas = quotas(&json!({"burntUntil": until, "burnt": parts}));
    let (_, policies) = quotas.active();
    let mut anew = Hours::default();
    anew.resume(quotas.objects.all().iter().map(|object| &**object));
    // Nobody led for half an hour, and the job ran.
    let half = at(1).saturating_add(1800);
    let gates = anew.count(&policies, [(limit("alice"), 8)], half);
    assert_eq!(gates, [(limit("alice"), None)]);
    assert_eq!(anew.next(&policies), Some(at(2)));
    let gates = anew.count(&policies, [(limit("alice"), 8)], at(2));
    assert!(gates[0].1.is_some());
}

#[test]
fn a_policy_that_is_gone_limits_nobody() {
    let (_, policies) = quotas(&json!({})).active();
    let mut hours = Hours::default();
    hours.count(&policies, [(limit("alice"), 8)], at(0));
    assert!(
        hours.count(&policies, [(limit("alice"), 8)], at(3))[0]
            .1
            .is_some()
    );
    let none = QuotaPolicies::default();
    let gates = hours.count(&none, [(limit("alice"), 8)], at(4));
    assert_eq!(gates, [(limit("alice"), None)]);
}

#[test]
fn what_cannot_be_read_for_a_while_forgets_nothing() {
    let quotas = quotas(&json!({}));
    let (_, policies) = quotas.active();
    let mut hours = Hours::default();
    let mut count = |policies: &QuotaPolicies, gpus: i64, hour: i64| {
        let gates = hours.count(policies, [(limit("alice"), gpus)], at(hour));
        gates.first().map(|(_, gate)| gate.is_some())
    };
    assert_eq!(count(&policies, 8, 0), Some(false));
    let unreadable = [("p".to_owned(), "no".to_owned())];
    let broken = QuotaPolicies::load([], unreadable);
    // Nothing starts meanwhile, and what runs burns on.
    assert_eq!(count(&broken, 8, 1), Some(false));
    assert_eq!(count(&policies, 8, 2), Some(true));
    assert_eq!(count(&broken, 0, 3), Some(true));
    assert_eq!(count(&policies, 0, 4), Some(true));
}
