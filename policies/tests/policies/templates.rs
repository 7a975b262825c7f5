//! Every effect of a template or profile on the pods is either refused or a privilege that a policy
//! must permit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, from_value, json};
use trellis_api::{
    QueueResources, QueueSpec, ResolvedJob, RuntimeProfile, TrainingJob, ValidatedJob,
    ValidatedProfile,
};
use trellis_compiler::{
    CompileContext, CompileFacts, CompiledJob, HashedProfile, PodPlacement, compile,
};
use trellis_policies::cedar::{NotAuthorized, Policies, SubmissionFacts, authorize};
use trellis_policies::{ClusterFacts, Denial, DenialSource, FixedRule, unlisted_fields};

use crate::cedar::starter;
use crate::cedar::support::{ALLOW_ALL, cluster, set};

fn job(template: Option<&Value>) -> TrainingJob {
    let mut group =
        json!({"name": "w", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
    if let Some(template) = template {
        group["podTemplate"] = template.clone();
    }
    from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "llm", "namespace": "team-a"},
        "spec": {"taskGroups": [group]},
    }))
    .unwrap()
}

fn profile(template: &Value) -> Result<Arc<HashedProfile>, String> {
    let object: RuntimeProfile = from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "RuntimeProfile",
        "metadata": {"name": "fabric"}, "spec": {"podTemplate": template},
    }))
    .unwrap();
    let valid = ValidatedProfile::try_from(object).map_err(|e| e.to_string())?;
    Ok(Arc::new(HashedProfile::new(valid)))
}

fn compiled(job: TrainingJob, profile: Option<Arc<HashedProfile>>) -> Result<CompiledJob, String> {
    let job = ValidatedJob::try_from(job).map_err(|e| e.to_string())?;
    let job = ResolvedJob::new(job, None, "default", QueueResources::default()).unwrap();
    let services = BTreeMap::new();
    let found = CompileFacts {
        queue: "default",
        priority: 0,
        namespace_enforces_restricted: false,
        services: &services,
    };
    let surroundings = CompileContext::resolve(job.job(), found).unwrap();
    Ok(compile(
        job,
        surroundings.with_profile(profile),
        &Arc::default(),
    ))
}

/// The job with the template, and the bare job with a profile that has it.
fn compile_in_job_and_in_profile(template: &Value) -> [Result<CompiledJob, String>; 2] {
    let of_profile = profile(template).and_then(|profile| compiled(job(None), Some(profile)));
    [compiled(job(Some(template)), None), of_profile]
}

fn decide(policies: &Policies, job: CompiledJob) -> Result<(), Denial> {
    let labels = BTreeMap::new();
    let queue: QueueSpec = from_value(json!({"namespaceSelector": {}})).unwrap();
    let facts = ClusterFacts {
        queue: "default",
        queue_spec: &queue,
        namespace: "team-a",
        namespace_labels: &labels,
        priority_class: None,
    };
    let submission = SubmissionFacts {
        labels: &labels,
        requester: None,
        attempt: 1,
    };
    let (_, outcome) = authorize(Some(policies), job, &facts, &submission);
    match outcome {
        Ok(_) => Ok(()),
        Err(NotAuthorized::Denied(denial)) => Err(denial),
        Err(undecided) => panic!("{undecided}"),
    }
}

fn spec(field: &str, value: Value) -> Value {
    json!({"spec": {field: value}})
}

fn context(field: &str, value: Value) -> Value {
    json!({"spec": {"containers": [{"name": "main", "securityContext": {field: value}}]}})
}

fn sidecar(kind: &str, more: Value) -> Value {
    let resources = json!({"limits": {"cpu": 1, "memory": "1Gi"}});
    let mut container = json!({"name": "side", "image": "i", "resources": resources});
    container
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"spec": {kind: [container]}})
}

/// Each dangerous field, and the privilege that it is.
fn privileged_templates() -> Vec<(Value, &'static str)> {
    let mut all = vec![
        (spec("hostNetwork", json!(true)), "hostNetwork"),
        (spec("hostPID", json!(true)), "hostPID"),
        (spec("hostIPC", json!(true)), "hostIPC"),
        (
            spec("runtimeClassName", json!("nvidia")),
            "runtimeClass nvidia",
        ),
        (
            spec("tolerations", json!([{"operator": "Exists"}])),
            "toleration *",
        ),
        (
            spec("volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
            "hostPath",
        ),
        (
            spec(
                "volumes",
                json!([{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
            ),
            "volume nfs",
        ),
        (
            spec(
                "volumes",
                json!([{"name": "v", "image": {"reference": "i"}}]),
            ),
            "volume image",
        ),
        (
            spec("volumes", json!([{"name": "v", "csi": {"driver": "d"}}])),
            "csi d",
        ),
        (
            spec(
                "securityContext",
                json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
            ),
            "sysctl kernel.msgmax",
        ),
        (
            spec(
                "securityContext",
                json!({"seccompProfile": {"type": "Unconfined"}}),
            ),
            "seccomp",
        ),
        (
            spec(
                "securityContext",
                json!({"appArmorProfile": {"type": "Unconfined"}}),
            ),
            "appArmor",
        ),
        (
            spec(
                "securityContext",
                json!({"seLinuxOptions": {"type": "spc_t"}}),
            ),
            "seLinux",
        ),
        (
            spec(
                "securityContext",
                json!({"windowsOptions": {"hostProcess": true}}),
            ),
            "hostProcess",
        ),
        (
            context("allowPrivilegeEscalation", json!(true)),
            "allowPrivilegeEscalation",
        ),
        (context("privileged", json!(true)), "privileged"),
        (context("procMount", json!("Unmasked")), "procMount"),
        (
            context("capabilities", json!({"add": ["IPC_LOCK"]})),
            "IPC_LOCK",
        ),
        (
            context("capabilities", json!({"drop": ["NET_RAW"]})),
            "defaultCapabilities",
        ),
        (
            json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"}}}),
            "annotation k8s.v1.cni.cncf.io/networks",
        ),
    ];
    for kind in ["containers", "initContainers"] {
        all.extend([
            (sidecar(kind, json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": true}})), "privileged"),
            (sidecar(kind, json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}})), "SYS_ADMIN"),
            (sidecar(kind, json!({"livenessProbe": {"httpGet": {"port": 1, "host": "10.0.0.1"}}})), "hostProbe"),
            (sidecar(kind, json!({"lifecycle": {"preStop": {"tcpSocket": {"port": 1, "host": "10.0.0.1"}}}})), "hostProbe"),
            (sidecar(kind, json!({"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]})), "mountPropagation"),
        ]);
    }
    all
}

#[test]
fn starter_set_denies_privileged_template_with_field_and_remedy() {
    let starter = starter::policies();
    for (template, privilege) in privileged_templates() {
        for job in compile_in_job_and_in_profile(&template) {
            let job = job.unwrap_or_else(|e| panic!("{template}: {e}"));
            let denial = decide(&starter, job).expect_err(&template.to_string());
            let words = denial.to_string();
            let name = format!("uses the privilege {privilege:?} (");
            assert!(words.contains(&name), "{template}: {words}");
            assert!(
                words.contains(" of its pods), which no policy permits: "),
                "{words}"
            );
            assert!(
                denial
                    .refusals()
                    .iter()
                    .all(|r| r.source == DenialSource::NoPermit),
                "{words}"
            );
        }
    }
}

#[test]
fn privileged_template_is_allowed_when_a_policy_permits_it() {
    for (template, privilege) in privileged_templates() {
        let grant = "permit(principal, action, resource) unless { action == Trellis::Action::\"UsePrivilege\" };\
            permit(principal, action, resource == Trellis::Privilege::\"RunAsRoot\");";
        let mut grant = grant.to_owned();
        for name in [privilege, "allowPrivilegeEscalation"] {
            grant +=
                &format!("permit(principal, action, resource == Trellis::Privilege::{name:?});");
        }
        let policies = set(vec![cluster("most", &grant)]);
        for job in compile_in_job_and_in_profile(&template) {
            assert_eq!(decide(&policies, job.unwrap()), Ok(()), "{template}");
        }
    }
}

/// A platform team permits the privileges of its own profile, and not the same ones in a template.
#[test]
fn policy_permits_a_privilege_for_one_profile() {
    let text = "permit(principal, action, resource) unless { action == Trellis::Action::\"UsePrivilege\" };\
        permit(principal, action, resource == Trellis::Privilege::\"RunAsRoot\");\
        permit(principal, action, resource == Trellis::Privilege::\"IPC_LOCK\")\
        when { context has profile && context.profile == \"fabric\" };";
    let policies = set(vec![cluster("fabric", text)]);
    let template = context("capabilities", json!({"add": ["IPC_LOCK"]}));
    let [by_job, by_profile] = compile_in_job_and_in_profile(&template);
    assert!(decide(&policies, by_job.unwrap()).is_err());
    assert_eq!(decide(&policies, by_profile.unwrap()), Ok(()));
}

/// An administrator who trusts a domain permits all of its annotations with one policy.
#[test]
fn policy_permits_annotations_by_domain() {
    let text = "permit(principal, action, resource) unless { action == Trellis::Action::\"UsePrivilege\" };\
        permit(principal, action, resource == Trellis::Privilege::\"RunAsRoot\");\
        permit(principal, action == Trellis::Action::\"UsePrivilege\", resource)\
        when { resource.name like \"annotation example.com/*\" };";
    let policies = set(vec![cluster("ours", text)]);
    let annotated = |key: &str| json!({"metadata": {"annotations": {key: "x"}}});
    for (key, may) in [
        ("note", true),
        ("prometheus.io/port", true),
        ("example.com/a", true),
        ("example.com/b", true),
        ("other.example.com/a", false),
        ("sidecar.istio.io/inject", false),
    ] {
        for job in compile_in_job_and_in_profile(&annotated(key)) {
            let decided = decide(&policies, job.unwrap());
            assert_eq!(decided.is_ok(), may, "{key}: {decided:?}");
        }
    }
}

/// Pod fields that no policy can permit, in a pod that the compiler would not make.
#[test]
fn unlisted_pod_field_is_denied_under_any_policy() {
    let pod = |more: Value| {
        let compiled = compiled(job(None), None).unwrap();
        let mut pod =
            serde_json::to_value(compiled.groups()[0].pod(0, &PodPlacement::UNPLACED)).unwrap();
        let more = more.as_object().unwrap().clone();
        pod["spec"].as_object_mut().unwrap().extend(more);
        unlisted_fields(&from_value(pod).unwrap())
    };
    assert_eq!(pod(json!({})), []);
    for (field, value) in [
        ("priority", json!(2_000_000_000)),
        ("preemptionPolicy", json!("Never")),
        ("schedulerName", json!("other")),
        ("restartPolicy", json!("Always")),
        ("serviceAccount", json!("other")),
        ("ephemeralContainers", json!([{"name": "e"}])),
        ("resourceClaims", json!([{"name": "c"}])),
        ("overhead", json!({"cpu": "1"})),
        ("os", json!({"name": "windows"})),
        ("schedulingGates", json!([{"name": "g"}])),
        ("topologySpreadConstraints", json!([])),
        ("hostnameOverride", json!("h")),
        ("activeDeadlineSeconds", json!(1)),
        ("readinessGates", json!([])),
    ] {
        let found = pod(json!({field: value}));
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        assert_eq!(found[0].path, format!("spec.{field}"));
    }
    assert_eq!(FixedRule::FinalPod.to_string(), "final-pod");
}

/// Fields that are not privileges are refused by their path, in templates and profiles alike.
#[test]
fn template_field_beyond_policies_is_refused_by_validation() {
    for (template, path) in [
        (spec("nodeName", json!("n")), "podTemplate.spec.nodeName"),
        (spec("priority", json!(1)), "podTemplate.spec.priority"),
        (
            spec("serviceAccount", json!("a")),
            "podTemplate.spec.serviceAccount",
        ),
        (
            spec("volumes", json!([{"name": "v", "ephemeral": {}}])),
            "podTemplate.spec.volumes[0].ephemeral",
        ),
        (spec("unheardOf", json!(true)), "podTemplate.spec.unheardOf"),
        (
            sidecar("ephemeralContainers", json!({})),
            "podTemplate.spec.ephemeralContainers",
        ),
        (
            sidecar(
                "containers",
                json!({"ports": [{"containerPort": 1, "hostPort": 1}]}),
            ),
            "podTemplate.spec.containers[0].ports[0].hostPort",
        ),
        (
            json!({"metadata": {"labels": {"trellis.dev/job-uid": "x"}}}),
            "podTemplate.metadata.labels",
        ),
        (
            json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}}}),
            "podTemplate.metadata.annotations",
        ),
    ] {
        for job in compile_in_job_and_in_profile(&template) {
            let error = job.expect_err(&template.to_string());
            assert!(error.contains(path), "{error}");
        }
    }
}

/// Fields that validation accepts and that pods of jobs must not have.
#[test]
fn final_pod_rule_denies_fields_that_every_policy_permits() {
    let all = set(vec![cluster("all", ALLOW_ALL)]);
    let options = json!([{"name": "v", "mountPath": "/v", "bindMountOptions": ["exec"]}]);
    let mount = sidecar("initContainers", json!({"volumeMounts": options}));
    let windows = context("windowsOptions", json!({"runAsUserName": "a"}));
    for (template, field) in [
        (
            mount,
            "spec.initContainers[0].volumeMounts[0].bindMountOptions",
        ),
        (
            windows,
            "spec.containers[0].securityContext.windowsOptions.runAsUserName",
        ),
    ] {
        for job in compile_in_job_and_in_profile(&template) {
            let denial = decide(&all, job.unwrap()).unwrap_err();
            let by: Vec<_> = denial.refusals().iter().map(|r| r.source.clone()).collect();
            assert_eq!(by, [DenialSource::Rule(FixedRule::FinalPod)]);
            let start = format!(
                "the pods of task group \"w\" have {field}, which the rule final-pod denies: leave it out"
            );
            assert!(denial.to_string().starts_with(&start), "{denial}");
        }
    }
}
