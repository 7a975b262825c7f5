//! Jobs and profiles with a pod template.

use super::*;
use crate::{RuntimeProfile, TrainingJob, ValidatedJob, ValidatedProfile};

fn job(framework: &str, template: Value) -> TrainingJob {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"framework": framework, "taskGroups": [
            {"name": "a", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
            {"name": "b", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "podTemplate": template},
        ]},
    }))
    .unwrap()
}

/// Returns a template with a variable that a framework sets, and that is free without one.
fn template_with_rank_variable() -> Value {
    let says = json!({"env": [{"name": "RANK", "value": "0"}]});
    container("containers", "main", says)
}

#[test]
fn job_reports_template_violations_with_the_whole_path() {
    let node = job("None", spec("nodeName", json!("n")));
    let error = ValidatedJob::try_from(node).unwrap_err();
    assert_eq!(
        error.as_slice()[0].path,
        "spec.taskGroups[1].podTemplate.spec.nodeName"
    );
    let error = ValidatedJob::try_from(job("PyTorch", template_with_rank_variable())).unwrap_err();
    let path = "spec.taskGroups[1].podTemplate.spec.containers[0].env[0].name";
    assert_eq!(error.as_slice().len(), 1);
    assert_eq!(error.as_slice()[0].path, path);
    let valid = ValidatedJob::try_from(job("None", template_with_rank_variable())).unwrap();
    assert!(valid.template(0).is_none() && valid.template(2).is_none());
    let spec = valid.template(1).unwrap().spec.as_ref().unwrap();
    assert_eq!(spec.containers[0].name, "main");
}

#[test]
fn profile_reports_template_violations() {
    let profile = |spec: Value| -> RuntimeProfile {
        serde_json::from_value(json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
            "metadata": {"name": "p"}, "spec": spec,
        }))
        .unwrap()
    };
    for (wrong, path) in [
        (
            json!({"podTemplate": spec("nodeName", json!("n"))}),
            "spec.podTemplate.spec.nodeName",
        ),
        (
            json!({"podTemplate": template_with_rank_variable()}),
            "spec.podTemplate",
        ),
        (
            json!({"env": [{"name": "PET_NNODES", "value": "1"}]}),
            "spec.env",
        ),
        (
            json!({"network": {"egress": [{"service": "s"}]}}),
            "spec.network",
        ),
        (
            json!({"network": {"ingress": [{"service": "s"}]}}),
            "spec.network",
        ),
        (json!({"runtimeClassName": "A b"}), "spec.runtimeClassName"),
        (
            json!({"podMetadata": {"labels": {"trellis.dev/job": "x"}}}),
            "spec.podMetadata.labels",
        ),
    ] {
        let error = ValidatedProfile::try_from(profile(wrong.clone())).unwrap_err();
        let paths: Vec<_> = error.as_slice().iter().map(|v| v.path.as_str()).collect();
        assert_eq!(paths, [path], "{wrong}");
    }
    let valid_spec = json!({
        "globalDefault": true, "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "network": {"ingress": [{"namespace": "monitoring", "ports": [{"port": 8080}]}]},
        "podTemplate": spec("hostIPC", json!(true)),
    });
    let valid = ValidatedProfile::try_from(profile(valid_spec)).unwrap();
    assert_eq!((valid.name(), valid.spec().is_default()), ("p", true));
    assert!(valid.template().is_some());
}
