//! Reads of policies, in front of an API server that answers what a test says.

use kube::Client;
use serde_json::{Value, json};

use super::*;

/// Answers the list at each path with its items. Other paths are forbidden, and with `broken`
/// all paths fail.
fn reader(lists: Vec<(&'static str, Value)>, broken: Option<u16>) -> Reader {
    let answer = move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let found = lists.iter().find(|(own, _)| *own == path);
        let failure = |code: u16| {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": format!("{path} is forbidden"), "reason": "r", "code": code})
        };
        let (code, body) = match (broken, found) {
            (Some(code), _) => (code, failure(code)),
            (None, Some((_, items))) => (
                200,
                json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}),
            ),
            (None, None) => (403, failure(403)),
        };
        let body = serde_json::to_vec(&body).unwrap();
        async move {
            let answer = http::Response::builder().status(code);
            Ok::<_, std::io::Error>(answer.body(kube::client::Body::from(body)).unwrap())
        }
    };
    Reader {
        client: Client::new(tower::service_fn(answer), "ml"),
        namespace: "ml".to_owned(),
        scheduler_timeout: None,
    }
}

const CLUSTER: &str = "/apis/trellis.dev/v1alpha1/clusterjobpolicies";
const ALL: &str = "/apis/trellis.dev/v1alpha1/jobpolicies";
const OWN: &str = "/apis/trellis.dev/v1alpha1/namespaces/ml/jobpolicies";
const OTHER: &str = "/apis/trellis.dev/v1alpha1/namespaces/other/jobpolicies";
const QUOTA: &str = "/apis/trellis.dev/v1alpha1/quotapolicies";
const JOBS: &str = "/apis/trellis.dev/v1alpha1/trainingjobs";
const OWN_JOBS: &str = "/apis/trellis.dev/v1alpha1/namespaces/ml/trainingjobs";

fn cluster_policy(name: &str) -> Value {
    json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "ClusterJobPolicy",
        "metadata": {"name": name, "generation": 2},
        "spec": {"cedar": "forbid(principal, action, resource);", "enforcement": "Warn"}})
}

fn job_policy(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "JobPolicy",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"cedar": "forbid(principal, action, resource);"}})
}

fn quota_policy(name: &str) -> Value {
    json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "QuotaPolicy", "metadata": {"name": name},
        "spec": {"subject": {}, "limits": {"runningJobs": 3}},
        "status": {"fullCount": 1, "holders": [
            {"uses": [{"limit": "runningJobs", "used": "3", "max": "3"}]}]}})
}

fn job(name: &str, phase: &str, policy: Value) -> Value {
    json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"namespace": "ml", "name": name},
        "spec": {"taskGroups": [{"name": "worker", "replicas": 1, "image": "registry.example/a:1"}]},
        "status": {"phase": phase, "policy": policy}})
}

fn names(reads: &PolicyReads) -> Vec<&str> {
    reads
        .job_policies
        .iter()
        .map(|own| own.name.as_str())
        .collect()
}

#[tokio::test]
async fn policies_of_all_kinds_are_sorted_and_keep_their_status() {
    let reader = reader(
        vec![
            (CLUSTER, json!([cluster_policy("b"), cluster_policy("a")])),
            (
                ALL,
                json!([job_policy("z", "own"), job_policy("ml", "own")]),
            ),
            (QUOTA, json!([quota_policy("vision")])),
            (JOBS, json!([])),
        ],
        None,
    );
    let reads = read_policies(&reader, None).await.unwrap();
    assert_eq!(names(&reads), ["a", "b", "own", "own"]);
    let json = serde_json::to_value(&reads).unwrap();
    assert_eq!(json["jobPolicies"][0]["kind"], "ClusterJobPolicy");
    assert_eq!(json["jobPolicies"][0]["enforcement"], "Warn");
    assert_eq!(json["jobPolicies"][0]["generation"], 2);
    assert_eq!(json["jobPolicies"][2]["namespace"], "ml");
    assert_eq!(json["jobPolicies"][2]["enforcement"], "Deny");
    assert_eq!(json["jobPolicies"][2]["onViolation"], "Report");
    assert_eq!(json["quotaPolicies"][0]["each"], "Subject");
    assert_eq!(
        json["quotaPolicies"][0]["status"]["holders"][0]["uses"][0]["used"],
        "3"
    );
    assert!(reads.notes.is_empty(), "{:?}", reads.notes);
    assert!(reads.unread.is_empty());
}

#[tokio::test]
async fn user_of_one_namespace_sees_its_policies_and_notes_for_the_rest() {
    let reader = reader(
        vec![
            (OWN, json!([job_policy("ml", "own")])),
            (OWN_JOBS, json!([])),
        ],
        None,
    );
    let reads = read_policies(&reader, None).await.unwrap();
    assert_eq!(names(&reads), ["own"]);
    assert_eq!(reads.unread, ["clusterjobpolicies", "quotapolicies"]);
    let notes = reads.notes.join("\n");
    for text in [
        "cannot list clusterjobpolicies: the right to do so is missing",
        "list clusterjobpolicies.trellis.dev in the cluster",
        "only jobpolicies of namespace \"ml\"",
        "cannot list quotapolicies: the right to do so is missing",
        "only trainingjobs of namespace \"ml\"",
    ] {
        assert!(notes.contains(text), "{text} is not in {notes}");
    }
}

#[tokio::test]
async fn user_without_rights_gets_notes_and_no_failure() {
    let reads = read_policies(&reader(Vec::new(), None), None)
        .await
        .unwrap();
    assert_eq!(
        reads.unread,
        [
            "clusterjobpolicies",
            "jobpolicies",
            "quotapolicies",
            "trainingjobs"
        ]
    );
    assert_eq!(reads.notes.len(), 4);
}

#[tokio::test]
async fn namespace_that_is_asked_for_is_the_only_one_that_is_read() {
    let lists = vec![
        (CLUSTER, json!([])),
        (ALL, json!([job_policy("ml", "all")])),
        (OWN, json!([job_policy("ml", "own")])),
        (OTHER, json!([job_policy("other", "there")])),
        (QUOTA, json!([])),
    ];
    let reads = read_policies(&reader(lists, None), Some("other"))
        .await
        .unwrap();
    assert_eq!(names(&reads), ["there"]);
    assert_eq!(reads.unread, ["trainingjobs"]);
    assert!(
        reads.notes[0].contains("in namespace \"other\""),
        "{:?}",
        reads.notes
    );
}

#[tokio::test]
async fn jobs_that_need_a_decision_or_a_change_are_listed() {
    let denied = json!({"decision": "Denied", "policies": ["h100/small"],
        "missingPermits": ["permit(principal, action, resource);"]});
    let jobs = json!([
        job("ok", "Running", json!({"decision": "Allowed"})),
        job(
            "warned",
            "Running",
            json!({"decision": "Allowed", "warnings": ["would be denied"]})
        ),
        job("refused", "Refused", denied),
        job("ended", "Failed", json!({"decision": "Denied"})),
        job(
            "open",
            "Waiting",
            json!({"decision": "Undecided", "errors": ["no such tag"]})
        ),
    ]);
    let lists = vec![
        (CLUSTER, json!([])),
        (ALL, json!([])),
        (QUOTA, json!([])),
        (JOBS, jobs),
    ];
    let reads = read_policies(&reader(lists, None), None).await.unwrap();
    let names: Vec<_> = reads.jobs.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, ["open", "refused", "warned"]);
    assert_eq!(reads.job_count, 3);
}

#[tokio::test]
async fn answer_has_a_bounded_number_of_jobs_and_says_how_many_there_are() {
    let denied = |place: usize| {
        job(
            &format!("job-{place:04}"),
            "Refused",
            json!({"decision": "Denied"}),
        )
    };
    let jobs: Vec<_> = (0..MAX_JOBS + 3).map(denied).collect();
    let lists = vec![
        (CLUSTER, json!([])),
        (ALL, json!([])),
        (QUOTA, json!([])),
        (JOBS, json!(jobs)),
    ];
    let reads = read_policies(&reader(lists, None), None).await.unwrap();
    assert_eq!(
        (reads.jobs.len(), reads.job_count),
        (MAX_JOBS, MAX_JOBS + 3)
    );
}

#[tokio::test]
async fn unknown_user_and_a_broken_cluster_are_failures() {
    for (code, failure) in [
        (401, ReadFailure::Unauthorized),
        (500, ReadFailure::Unreachable),
    ] {
        let error = read_policies(&reader(Vec::new(), Some(code)), None)
            .await
            .unwrap_err();
        assert_eq!(error.failure, failure);
    }
}

#[tokio::test]
async fn cluster_without_the_kinds_gives_a_note() {
    let reads = read_policies(&reader(Vec::new(), Some(404)), None)
        .await
        .unwrap();
    assert!(
        reads.notes[0].contains("install the CRDs"),
        "{:?}",
        reads.notes
    );
}
