//! Conditions, GPU-hours and due writes of a policy's status.

use trellis_api::quota_policy::ResourceLimit;
use trellis_policies::quota::{GpuTimeUsage, LimitHolder};

use super::*;

fn policy() -> QuotaPolicy {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "1"},
        "spec": {"subject": {}, "limits": {"gpuHours": {"limit": 100, "windowHours": 48}}},
    }))
    .unwrap()
}

#[test]
fn unreadable_ledger_degrades_the_policy_and_leaves_no_hours() {
    let mut report = LimitsReport::default();
    let error = "spec.entries[0].gpuSeconds is negative".to_owned();
    report.unreadable_ledgers.insert("p".to_owned(), error);
    let status = build_status(
        "p",
        &policy(),
        PolicyFaults::default(),
        &report,
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(status.gpu_hours_left, Some(whole_quantity(0)));
    let condition = |type_: &str| status.conditions.iter().find(|c| c.type_ == type_).unwrap();
    let degraded = condition("Degraded");
    assert_eq!(
        (degraded.status.as_str(), degraded.reason.as_str()),
        ("True", "LedgerUnreadable")
    );
    assert!(
        degraded
            .message
            .contains("QuotaLedger \"p\" cannot be read (spec.entries[0]")
    );
    assert_eq!(condition("Active").status, "True");
}

#[test]
fn limit_of_a_missing_flavor_degrades_the_policy() {
    let mut object = policy();
    let limit = |flavor: Option<&str>| ResourceLimit {
        resource: "cpu".to_owned(),
        flavor: flavor.map(str::to_owned),
        ..ResourceLimit::default()
    };
    object.spec.limits.resources = vec![limit(None), limit(Some("a100")), limit(Some("h10"))];
    let degraded = |flavors: &[&str]| {
        let faults = PolicyFaults {
            spec: None,
            flavor: missing_flavor_fault(&object, |flavor| flavors.contains(&flavor)),
        };
        let report = LimitsReport::default();
        let status = build_status("p", &object, faults, &report, Timestamp::UNIX_EPOCH);
        let mut conditions = status.conditions.into_iter();
        let degraded = conditions.find(|c| c.type_ == "Degraded").unwrap();
        (degraded.status, degraded.reason, degraded.message)
    };
    let missing = degraded(&["a100"]);
    assert_eq!(
        (missing.0.as_str(), missing.1.as_str()),
        ("True", "FlavorNotFound")
    );
    assert_eq!(
        missing.2,
        "spec.limits.resources[2] limits nothing: there is no ResourceFlavor \"h10\"; create it, or correct the name"
    );
    assert_eq!(degraded(&["a100", "h10"]).0, "False");
    // The fault of a policy without effect takes precedence.
    let faults = PolicyFaults {
        spec: Some("no".to_owned()),
        flavor: missing_flavor_fault(&object, |_| false),
    };
    let report = LimitsReport::default();
    let status = build_status("p", &object, faults, &report, Timestamp::UNIX_EPOCH);
    assert!(status.conditions.iter().all(|c| c.reason == "InvalidSpec"));
}

#[test]
fn changed_gpu_hours_are_written_at_most_once_a_minute() {
    let limit = LimitId {
        policy: "p".to_owned(),
        holder: LimitHolder::Subject,
        quantity: LimitedQuantity::GpuHours,
    };
    let report = |hours: i128| {
        let mut report = LimitsReport::default();
        let hundred = Quantity::new("100").amount().unwrap();
        report.usage.insert(limit.clone(), (0, hundred));
        let part = GpuTimeUsage {
            start: 0,
            gpu_seconds: hours * HOUR_SECONDS,
        };
        report.used_gpu_hours.insert(limit.clone(), (0, vec![part]));
        report
    };
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut object = policy();
    object.status = Some(build_status(
        "p",
        &object,
        PolicyFaults::default(),
        &report(1),
        at(0),
    ));
    let patch = |hours, fault: Option<&str>, second| {
        let times = (Some(at(0)), at(second));
        let faults = PolicyFaults {
            spec: fault.map(str::to_owned),
            flavor: None,
        };
        status_patch("p", &object, faults, &report(hours), times)
    };
    assert_eq!(patch(1, None, 600), None);
    assert_eq!(patch(2, None, 59), None);
    let patched = patch(2, None, 60).unwrap();
    assert_eq!(patched["status"]["gpuHoursLeft"], "98");
    assert_eq!(
        patched["metadata"],
        json!({"uid": "u", "resourceVersion": "1"})
    );
    assert!(patch(1, Some("no"), 1).is_some());
}

#[test]
fn gpu_hours_left_are_the_least_of_all_holders_rounded_down() {
    let limit_of = |policy: &str, user: &str| LimitId {
        policy: policy.to_owned(),
        holder: LimitHolder::Requester(user.to_owned()),
        quantity: LimitedQuantity::GpuHours,
    };
    let hundred = Quantity::new("100").amount().unwrap();
    let mut report = LimitsReport::default();
    for (limit, gpu_seconds) in [
        (limit_of("a", "ada"), 3_600),
        (limit_of("a", "bob"), 90 * 3_600 + 1),
        (limit_of("b", "ada"), 500 * 3_600),
    ] {
        report.usage.insert(limit.clone(), (0, hundred));
        let parts = [(0, gpu_seconds - 1), (3_600, 1)];
        let parts = parts.map(|(start, gpu_seconds)| GpuTimeUsage { start, gpu_seconds });
        report.used_gpu_hours.insert(limit, (7_200, parts.to_vec()));
    }
    let hours_left =
        |policy| gpu_hours_left(policy, &report).map(|hours_left| hours_left.as_str().to_owned());
    assert_eq!(hours_left("a").as_deref(), Some("9"));
    assert_eq!(hours_left("b").as_deref(), Some("0"));
    assert_eq!(hours_left("c"), None);
}
