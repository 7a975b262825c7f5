//! Pod templates: fields, volumes and variables.

use serde_json::{Value, json};

use super::documents::{CONTAINER, FAILED, group, kueue, volcano};
use super::{import_notes, import_object, import_text};

#[test]
fn job_volume_is_mounted_by_the_main_container_alone() {
    let text = |beside: &str| {
        volcano(
            "  volumes: [{mountPath: /d, volumeClaimName: c}]\n",
            &[("t", "")],
        )
        .replace("containers: [", &format!("containers: [{beside}"))
    };
    assert_eq!(import_notes(&text("")), Vec::<String>::new());
    let beside = format!("{{{}}}, ", CONTAINER.replace("name: c", "name: d"));
    let notes = import_notes(&text(&beside));
    assert!(
        notes
            .iter()
            .any(|n| n.starts_with("spec.volumes[0]: is mounted by all")),
        "{notes:?}"
    );
}

/// The variable would be longer than the API server allows.
#[test]
fn overlong_host_list_is_noted() {
    let job = |replicas: usize| {
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n{FAILED}  plugins: {{svc: []}}\n  tasks: [{{name: t, replicas: {replicas}, template: {{spec: {{containers: [{{name: c, image: 'i:1', command: [run, $VC_T_HOSTS], resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}]\n"
        )
    };
    assert_eq!(
        group(&import_object(&job(2)), 0)["env"],
        json!([{"name": "VC_T_HOSTS", "value": "a-t-0.a,a-t-1.a"}])
    );
    assert_eq!(import_notes(&job(2)), Vec::<String>::new());
    assert_eq!(group(&import_object(&job(4096)), 0)["env"], Value::Null);
    assert!(import_notes(&job(4096))[0].contains("VC_T_HOSTS"));
}

#[test]
fn unsupported_template_field_is_noted_with_its_path() {
    let text = kueue(
        "",
        "      nodeName: gpu-1
      shareProcessNamespace: true
      restartPolicy: Never
      containers:
      - {name: a, image: 'a:1', stdin: true, resources: {limits: {cpu: 1, memory: 1Gi}}}
      - name: b
        image: b:1
        env: [{name: X, value: x}, {name: TRELLIS_RANK, value: '1'}]
        ports: [{containerPort: 80, hostPort: 80}]
        resources: {limits: {cpu: 1, memory: 1Gi}}
        volumeMounts: [{name: claim-0, mountPath: /a}]
      volumes:
      - {name: claim-0, nfs: {server: a, path: /}}
",
    );
    let template = group(&import_object(&text), 0)["podTemplate"]["spec"].clone();
    assert_eq!(
        template,
        json!({"shareProcessNamespace": true, "containers": [
            {"name": "main", "stdin": true},
            {"name": "b", "image": "b:1", "env": [{"name": "X", "value": "x"}],
                "ports": [{"containerPort": 80}], "volumeMounts": [],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        ]})
    );
    let paths: Vec<String> = import_text(&text)[0]
        .notes
        .iter()
        .map(|note| note.path.clone())
        .collect();
    let within = "spec.template.spec";
    for path in [
        "nodeName",
        "containers[1].env[1]",
        "containers[1].ports[0].hostPort",
        "containers[1].volumeMounts[0]",
        "volumes[0]",
    ] {
        assert!(
            paths.contains(&format!("{within}.{path}")),
            "{path}: {paths:?}"
        );
    }
}

#[test]
fn volume_mounted_by_other_containers_stays_a_volume() {
    let pods = |mounts: &str| {
        kueue(
            "",
            &format!(
                "      containers:
      - name: a
        image: a:1
        resources: {{limits: {{cpu: 1, memory: 8Gi}}}}
        volumeMounts: [{{name: data, mountPath: /data}}, {{name: shm, mountPath: /dev/shm}}]
      - name: b
        image: b:1
        resources: {{limits: {{cpu: 1, memory: 1Gi}}}}
        volumeMounts: [{mounts}]
      volumes:
      - {{name: data, persistentVolumeClaim: {{claimName: data}}}}
      - {{name: shm, emptyDir: {{medium: Memory}}}}
"
            ),
        )
    };
    let alone = import_object(&pods(""));
    assert_eq!(
        group(&alone, 0)["mounts"],
        json!([{"claimName": "data", "path": "/data"}])
    );
    // tmpfs without a limit is as large as the pod's memory.
    assert_eq!(group(&alone, 0)["sharedMemory"], "8Gi");
    let shared = import_object(&pods(
        "{name: data, mountPath: /d}, {name: shm, mountPath: /dev/shm}",
    ));
    assert_eq!(group(&shared, 0)["mounts"], Value::Null);
    let spec = &group(&shared, 0)["podTemplate"]["spec"];
    assert_eq!(spec["volumes"][0]["name"], "data");
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": "data", "mountPath": "/data"}])
    );
    assert_eq!(
        spec["containers"][1]["volumeMounts"][1]["name"],
        "shared-memory"
    );
}

#[test]
fn unset_volcano_variables_are_noted() {
    let task = "template: {spec: {containers: [{name: c, image: 'i:1', command: [run, '$VC_TASK_INDEX', '/etc/volcano/t.host'], \
                resources: {limits: {cpu: 1, memory: 1Gi}}}]}}";
    let job = |plugins: &str| {
        format!(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec:\n{FAILED}  plugins: {plugins}\n  tasks: [{{name: t, {task}}}]\n"
        )
    };
    let notes_for = |text: &str| -> Vec<String> {
        let notes = import_text(text)[0].notes.clone();
        notes.into_iter().map(|note| note.value).collect()
    };
    assert_eq!(
        notes_for(&job("{svc: []}")),
        ["\"VC_TASK_INDEX\"", "\"/etc/volcano\""]
    );
    // The env plugin sets the variable in Volcano, and the created job sets it in Trellis.
    assert_eq!(notes_for(&job("{env: [], svc: []}")), ["\"/etc/volcano\""]);
}
