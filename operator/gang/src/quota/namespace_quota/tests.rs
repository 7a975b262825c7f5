use serde_json::json;

use super::*;

fn named(name: &str, hard: serde_json::Value, used: serde_json::Value) -> ResourceQuota {
    let quota = json!({
        "metadata": {"name": name}, "spec": {"hard": hard}, "status": {"used": used},
    });
    serde_json::from_value(quota).unwrap()
}

fn quota(hard: serde_json::Value, used: serde_json::Value) -> [ResourceQuota; 1] {
    [named("q", hard, used)]
}

fn pods(pods: i64) -> QuotaDemand {
    pods_of_class(None, pods)
}

fn pods_of_class(class: Option<&str>, pods: i64) -> QuotaDemand {
    let half_a_core = Resources::new().with("cpu", 500);
    let quota_fields = PodQuotaFields {
        limits: half_a_core.clone(),
        priority_class: class.map(str::to_owned),
        ..PodQuotaFields::default()
    };
    let mut demand = QuotaDemand::default();
    demand.add(pods, &half_a_core, &quota_fields);
    demand
}

#[test]
fn pods_promised_to_other_gangs_count_against_the_quota() {
    let four = quota(json!({"pods": "4"}), json!({"pods": "1"}));
    assert_eq!(find_exceeded_quota(&four, &pods(3), &[]), None);
    let message = find_exceeded_quota(&four, &pods(2), &[pods(1), pods(1)]).unwrap();
    assert_eq!(
        message,
        "ResourceQuota \"q\" of the namespace allows 4 pods, of which 1 are used and 2 are promised to other gangs; the whole gang needs 2"
    );
    let cores = quota(json!({"requests.cpu": "2"}), json!({"requests.cpu": "1"}));
    assert_eq!(find_exceeded_quota(&cores, &pods(1), &[pods(1)]), None);
    assert!(find_exceeded_quota(&cores, &pods(1), &[pods(2)]).is_some());
}

#[test]
fn ephemeral_claims_of_the_gang_count_against_storage_quotas() {
    let claim = |class: &str| EphemeralClaim {
        class: Some(class.to_owned()),
        bytes: 1 << 30,
    };
    let quota_fields = PodQuotaFields {
        ephemeral_claims: vec![claim("fast"), claim("slow")],
        ..PodQuotaFields::default()
    };
    let mut demand = QuotaDemand::default();
    demand.add(4, &Resources::new(), &quota_fields);
    let find_exceeded = |key: &str, limit: &str| {
        find_exceeded_quota(&quota(json!({key: limit}), json!({})), &demand, &[])
    };
    for (key, enough, too_little) in [
        ("persistentvolumeclaims", "8", "7"),
        ("count/persistentvolumeclaims", "8", "7"),
        ("requests.storage", "8Gi", "7Gi"),
        (
            "fast.storageclass.storage.k8s.io/requests.storage",
            "4Gi",
            "3Gi",
        ),
        (
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
            "4",
            "3",
        ),
        (
            "none.storageclass.storage.k8s.io/persistentvolumeclaims",
            "0",
            "",
        ),
    ] {
        assert_eq!(find_exceeded(key, enough), None, "{key}");
        if !too_little.is_empty() {
            let message = find_exceeded(key, too_little).unwrap();
            assert!(
                message.contains(&format!("allows {too_little} {key}")),
                "{message}"
            );
        }
    }
}

#[test]
fn promised_pods_outside_the_quota_scope_do_not_count() {
    let mut scoped = quota(json!({"pods": "2"}), json!({}));
    let selector = json!({"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    scoped[0].spec.as_mut().unwrap().scope_selector = serde_json::from_value(selector).unwrap();
    let high = |count| pods_of_class(Some("high"), count);
    assert_eq!(find_exceeded_quota(&scoped, &pods(3), &[]), None);
    assert_eq!(find_exceeded_quota(&scoped, &high(2), &[pods(9)]), None);
    assert!(find_exceeded_quota(&scoped, &high(2), &[high(1)]).is_some());
    let mut used = scoped[0].clone();
    used.status = serde_json::from_value(json!({"used": {"pods": "2"}})).unwrap();
    assert_eq!(release_usage(&used, &[pods(9)]), used);
    assert!(find_exceeded_quota([&release_usage(&used, &[high(1)])], &high(2), &[]).is_some());
    assert_eq!(
        find_exceeded_quota([&release_usage(&used, &[high(2)])], &high(2), &[]),
        None
    );
}

#[test]
fn exceeded_quota_with_the_first_name_is_reported_in_any_order() {
    let small = |name| named(name, json!({"pods": "1"}), json!({}));
    let (a, b) = (small("a"), small("b"));
    let message = find_exceeded_quota([&a, &b], &pods(2), &[]).unwrap();
    assert!(message.starts_with("ResourceQuota \"a\""), "{message}");
    assert_eq!(
        find_exceeded_quota([&b, &a], &pods(2), &[]).unwrap(),
        message
    );
}

#[test]
fn released_usage_is_free_again_and_never_below_zero() {
    let used = json!({"pods": "3", "requests.cpu": "1500m", "services": "2"});
    let full = named("q", json!({"pods": "3"}), used);
    let free = release_usage(&full, &[pods(1), pods(1)]);
    let used = free.status.unwrap().used.unwrap();
    let used_amount = |key: &str| used[key].0.as_str();
    assert_eq!(
        (
            used_amount("pods"),
            used_amount("requests.cpu"),
            used_amount("services")
        ),
        ("1", "0.5", "2")
    );
    let empty = release_usage(&full, &[pods(9)])
        .status
        .unwrap()
        .used
        .unwrap();
    assert_eq!(empty["pods"].0, "0");
}

#[test]
fn only_groups_in_the_quota_scope_count() {
    let mut scoped = quota(json!({"pods": "2"}), json!({}));
    scoped[0].spec.as_mut().unwrap().scopes = Some(vec!["PriorityClass".to_owned()]);
    let mut gang = pods_of_class(Some("high"), 2);
    gang.pods.extend(pods(5).pods);
    assert_eq!(find_exceeded_quota(&scoped, &gang, &[]), None);
    gang.pods.extend(pods_of_class(Some("low"), 1).pods);
    assert!(find_exceeded_quota(&scoped, &gang, &[]).is_some());
    assert_eq!(gang.count(), 8);
}

#[test]
fn quota_key_counts_its_own_resource_and_pod_limits() {
    let request = Resources::new()
        .with("cpu", 500)
        .with("memory", 10)
        .with("nvidia.com/gpu", 8)
        .with("hugepages-2Mi", 4);
    let quota_fields = PodQuotaFields {
        limits: Resources::new().with("cpu", 2000).with("memory", 20),
        ..PodQuotaFields::default()
    };
    let mut demand = QuotaDemand::default();
    demand.add(2, &request, &quota_fields);
    for (key, exact_limit) in [
        ("pods", "2"),
        ("count/pods", "2"),
        ("cpu", "1"),
        ("requests.cpu", "1"),
        ("limits.cpu", "4"),
        ("memory", "20"),
        ("limits.memory", "40"),
        ("requests.nvidia.com/gpu", "16"),
        ("hugepages-2Mi", "8"),
        ("requests.hugepages-2Mi", "8"),
    ] {
        let find_exceeded =
            |hard: &str| find_exceeded_quota(&quota(json!({key: hard}), json!({})), &demand, &[]);
        assert_eq!(find_exceeded(exact_limit), None, "{key}");
        let lower_limit = format!("{}m", exact_limit.parse::<i64>().unwrap() * 1000 - 1);
        assert!(find_exceeded(&lower_limit).is_some(), "{key}");
    }
    for key in [
        "services",
        "count/jobs.batch",
        "nvidia.com/gpu",
        "limits.storage",
    ] {
        assert_eq!(
            find_exceeded_quota(&quota(json!({key: "0"}), json!({})), &demand, &[]),
            None
        );
    }
}
