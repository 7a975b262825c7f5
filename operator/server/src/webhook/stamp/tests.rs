use serde_json::Value;

use super::*;

const ADA: &str = r#"{"user": "ada", "groups": ["ml"]}"#;
const BOB: &str = r#"{"user": "bob", "groups": ["ops"]}"#;

/// Returns a job with these annotations, and a spec that differs by its number.
fn job(annotations: Value, spec: u8) -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "annotations": annotations}, "spec": {"x": spec},
    })
}

fn stamped(stamp: &str) -> Value {
    json!({names::REQUESTED_BY: stamp, "a": "b"})
}

/// Returns the answer to a request of bob. `old`: Null for CREATE.
fn answer(object: &Value, old: &Value) -> StampAnswer {
    answer_to(object, old, "TrainingJob", None)
}

fn answer_to(object: &Value, old: &Value, kind: &str, sub_resource: Option<&str>) -> StampAnswer {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let request = json!({
        "uid": "u", "operation": operation,
        "userInfo": {"username": "bob", "groups": ["ops"]},
        "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": kind},
        "resource": {"group": "", "version": "", "resource": ""},
        "subResource": sub_resource, "object": object, "oldObject": old,
    });
    correct_stamp(&serde_json::from_value(request).unwrap())
}

/// Returns the stamp of the object as it reaches the admission policy.
fn stamp_after(object: &Value, old: &Value) -> Option<String> {
    let mut object = object.clone();
    if let StampAnswer::Patched(patch) = answer(&object, old) {
        json_patch::patch(&mut object, &patch).unwrap();
    }
    let stamp = &object["metadata"]["annotations"][names::REQUESTED_BY];
    stamp.as_str().map(str::to_owned)
}

#[test]
fn new_job_has_the_stamp_of_its_user() {
    for annotations in [Value::Null, json!({}), json!({"a": "b"}), stamped("")] {
        let after = stamp_after(&job(annotations.clone(), 1), &Value::Null);
        assert_eq!(after.as_deref(), Some(BOB), "{annotations}");
    }
    let own = job(stamped(BOB), 1);
    assert_eq!(answer(&own, &Value::Null), StampAnswer::Unchanged);
}

#[test]
fn changed_spec_has_the_stamp_of_the_user_who_changes_it() {
    let of_ada = job(stamped(ADA), 1);
    for annotations in [stamped(ADA), json!({"a": "b"}), Value::Null] {
        let after = stamp_after(&job(annotations.clone(), 2), &of_ada);
        assert_eq!(after.as_deref(), Some(BOB), "{annotations}");
    }
}

#[test]
fn request_that_keeps_the_spec_keeps_the_stamp() {
    let of_ada = job(stamped(ADA), 1);
    assert_eq!(answer(&of_ada, &of_ada), StampAnswer::Unchanged);
    for annotations in [json!({"a": "b"}), Value::Null] {
        let after = stamp_after(&job(annotations.clone(), 1), &of_ada);
        assert_eq!(after.as_deref(), Some(ADA), "{annotations}");
    }
    // A job without a stamp gets none from a user who did not write its spec.
    let unknown = job(json!({}), 1);
    assert_eq!(answer(&unknown, &unknown), StampAnswer::Unchanged);
}

/// The admission policy refuses the claim, and the user learns of it.
#[test]
fn false_claim_is_left_to_the_admission_policy() {
    let of_bob = job(stamped(BOB), 1);
    for (object, old) in [
        (job(stamped(ADA), 1), Value::Null),
        (job(stamped("ada"), 1), Value::Null),
        (job(stamped(ADA), 1), of_bob.clone()),
        (job(stamped(ADA), 2), of_bob),
    ] {
        assert_eq!(answer(&object, &old), StampAnswer::Unchanged);
    }
}

#[test]
fn stamp_is_removed_when_the_groups_of_the_user_do_not_fit() {
    let groups: Vec<String> = (0..5_000).map(|i| format!("group-{i:04}")).collect();
    let request = json!({
        "uid": "u", "operation": "UPDATE",
        "userInfo": {"username": "many", "groups": groups},
        "kind": {"group": "trellis.dev", "version": "v1alpha1", "kind": "TrainingJob"},
        "resource": {"group": "", "version": "", "resource": ""},
        "object": job(stamped(ADA), 2), "oldObject": job(stamped(ADA), 1),
    });
    let answer = correct_stamp(&serde_json::from_value(request).unwrap());
    let StampAnswer::Patched(patch) = answer else {
        panic!("{answer:?}");
    };
    let mut object = job(stamped(ADA), 2);
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn other_objects_are_not_stamped() {
    let unstamped = job(json!({}), 1);
    let pod = answer_to(&unstamped, &Value::Null, "Pod", None);
    let status = answer_to(
        &unstamped,
        &job(json!({}), 2),
        "TrainingJob",
        Some("status"),
    );
    assert_eq!(
        (pod, status),
        (StampAnswer::Unchanged, StampAnswer::Unchanged)
    );
}

#[test]
fn each_answer_lets_the_request_pass() {
    let new = answer(&job(json!({}), 1), &Value::Null);
    for (answer, has_patch, has_warning) in [
        (new, true, false),
        (StampAnswer::Unchanged, false, false),
        (StampAnswer::Skipped, false, true),
    ] {
        let body = serde_json::to_value(answer.into_body("u".to_owned())).unwrap();
        let response = &body["response"];
        assert_eq!(response["allowed"], true);
        assert_eq!(response["uid"], "u");
        assert_eq!(response.get("patch").is_some(), has_patch);
        assert_eq!(response.get("warnings").is_some(), has_warning);
    }
}
