//! Documents that cannot be imported, and their problems.

use trellis_api::Quantity;
use trellis_api::document;
use trellis_import::{ConversionOptions, import};

use super::{documents, import_text};

/// Returns the problems of the only document of a text.
fn refused(text: &str) -> Vec<String> {
    let imported = import_text(text);
    let [one] = imported.as_slice() else {
        panic!("{imported:?}")
    };
    assert_eq!(one.objects, [], "{text}");
    let problems = one.problems.iter();
    problems
        .map(|p| format!("{}: {}", p.field, p.message))
        .collect()
}

fn volcano(spec: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: a}}\nspec: {spec}\n"
    )
}

#[test]
fn invalid_field_gives_one_error_with_its_path() {
    let container = "{name: c, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}";
    let task = format!("{{name: t, template: {{spec: {{containers: [{container}]}}}}}}");
    for (text, expected) in [
        (volcano("[1]"), "spec: must be a mapping, not a list"),
        (volcano("{}"), "spec.tasks: is required: add a task with pods"),
        (volcano("{tasks: {a: 1}}"), "spec.tasks: must be a list, not a mapping: begin it with a dash"),
        (
            volcano("{tasks: [one]}"),
            "spec.tasks[0]: must be a mapping, not the text \"one\"",
        ),
        (
            volcano(&format!("{{maxRetry: many, tasks: [{task}]}}")),
            "spec.maxRetry: must be a whole number, not the text \"many\"",
        ),
        (
            volcano(&format!("{{queue: 7, tasks: [{task}]}}")),
            "spec.queue: must be a text, not the number 7: put it in quotes",
        ),
        (
            volcano("{tasks: [{name: t}]}"),
            "spec.tasks[0].template: is required: add a pod template",
        ),
        (
            volcano("{tasks: [{name: t, template: {spec: {containers: []}}}]}"),
            "spec.tasks[0].template.spec.containers: is required: add a container",
        ),
        (
            volcano(&format!("{{tasks: [{}]}}", task.replace("cpu: 1", "cpu: one"))),
            "spec.tasks[0].template.spec.containers[0].resources.limits.cpu: is not a number: write digits with an optional point, such as 1.5",
        ),
        (
            volcano(&format!("{{tasks: [{}]}}", task.replace("image: i, ", ""))),
            "spec.tasks[0].template.spec.containers[0].image: is required: add it",
        ),
        (
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {namespace: a}\nspec: {}\n".to_owned(),
            "metadata.name: is required: add it",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {}\n".to_owned(),
            "metadata.labels: must have the label kueue.x-k8s.io/queue-name or kai.scheduler/queue: a Job without it is not imported, because most Jobs are not training jobs; add it with the name of the queue for the TrainingJob",
        ),
        (
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {}\n".to_owned(),
            "spec.pytorchReplicaSpecs: is required: add Master, Worker or both",
        ),
        (
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {pytorchReplicaSpecs: {}}\n".to_owned(),
            "spec.pytorchReplicaSpecs: has no pods: add Master, Worker or both",
        ),
        (
            "apiVersion: lattice.dev/v1alpha1\nkind: LatticeJob\nmetadata: {name: a}\nspec: {workers: 2}\n".to_owned(),
            "spec.tasks: is required: add a task; write the containers of a LatticeJob in the earlier form as one task",
        ),
        (
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: a}\nspec: {}\n".to_owned(),
            "spec.clusterQueue: is required: name the ClusterQueue",
        ),
        (
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: a}\nspec: {stopPolicy: Now}\n".to_owned(),
            "spec.stopPolicy: is \"Now\", which is not a known value: correct it",
        ),
    ] {
        assert_eq!(refused(&text), [expected], "{text}");
    }
}

#[test]
fn unsupported_kind_names_the_alternative() {
    for (version, kind, expected) in [
        (
            "v1",
            "Secret",
            "\"Secret\" of \"v1\" cannot be imported: the importable kinds are Job (batch.volcano.sh), Queue (scheduling.volcano.sh), ",
        ),
        (
            "kubeflow.org/v1",
            "PytorchJob",
            "did you mean PyTorchJob of kubeflow.org/v1?",
        ),
        (
            "v1",
            "ConfigMap",
            "ConfigMap cannot be imported: write the controller_manager_config.yaml of Kueue's ConfigMap as a document of its own",
        ),
        (
            "kubeflow.org/v1",
            "MPIJob",
            "MPIJob cannot be imported: write a TrainingJob with framework MPI",
        ),
        (
            "kueue.x-k8s.io/v1beta1",
            "Workload",
            "import the job itself",
        ),
        (
            "kueue.x-k8s.io/v1alpha1",
            "ClusterQueue",
            "can be imported only in version v1beta1 or v1beta2: convert it",
        ),
        (
            "kai.scheduler/v1",
            "SchedulingShard",
            "SchedulingShard cannot be imported: create a ResourceFlavor",
        ),
        (
            "scheduling.run.ai/v1",
            "Queue",
            "can be imported only in version v2: convert it",
        ),
        (
            "trellis.dev/v1alpha1",
            "TrainingJob",
            "is already a kind of Trellis: apply it unchanged",
        ),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n");
        let problems = refused(&text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(expected), "{problems:?}");
    }
}

/// Text that is not a Kubernetes object is refused before its kind is checked.
#[test]
fn text_without_an_object_is_refused() {
    for text in ["- 1\n", "just words\n", "{}\n", "kind: Job\n"] {
        assert!(document::split(text).is_err(), "{text}");
    }
    assert!(documents("# nothing\n---\n").is_empty());
}

#[test]
fn container_without_amounts_uses_the_options() {
    let text =
        volcano("{tasks: [{name: t, template: {spec: {containers: [{name: c, image: i}]}}}]}");
    let problems = refused(&text);
    assert_eq!(problems.len(), 2, "{problems:?}");
    let path = "spec.tasks[0].template.spec.containers[0].resources.limits.";
    assert!(
        problems.iter().all(|problems| problems.starts_with(path)),
        "{problems:?}"
    );
    let options = ConversionOptions {
        cpu: Some(Quantity::new("2")),
        memory: Some(Quantity::new("4Gi")),
        ..ConversionOptions::default()
    };
    let imported = import(&documents(&text), &options);
    assert_eq!(imported[0].problems, []);
    let note_texts = imported[0].notes.iter().map(|note| note.text());
    assert_eq!(
        note_texts.filter(|text| text.contains("from --")).count(),
        2
    );
    let object = serde_json::to_value(&imported[0].objects[0]).unwrap();
    assert_eq!(
        object["spec"]["taskGroups"][0]["resources"]["limits"]["cpu"],
        "2"
    );
}

/// A Job whose only task has these containers.
fn containers(containers: &str) -> String {
    volcano(&format!(
        "{{policies: [{{event: PodFailed, action: RestartJob}}], tasks: [{{name: t, template: {{spec: {{{containers}}}}}}}]}}"
    ))
}

#[test]
fn main_container_with_gpus_may_leave_amounts_to_a_profile_or_queue() {
    let gpus = "containers: [{name: c, image: 'i:1', resources: {limits: {nvidia.com/gpu: 8}}}]";
    let imported = import(&documents(&containers(gpus)), &ConversionOptions::default());
    assert_eq!(imported[0].problems, []);
    let notes: Vec<String> = imported[0].notes.iter().map(|note| note.text()).collect();
    let [cpu, memory] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert!(cpu.contains("set resourcesPerGPU.cpu there"), "{cpu}");
    assert!(
        memory.contains("set resourcesPerGPU.memory there"),
        "{memory}"
    );
    let object = serde_json::to_value(&imported[0].objects[0]).unwrap();
    let group = &object["spec"]["taskGroups"][0];
    assert_eq!((&group["gpus"], group.get("resources")), (&8.into(), None));
    // An option still sets the amount for all containers.
    let options = ConversionOptions {
        cpu: Some(Quantity::new("2")),
        ..ConversionOptions::default()
    };
    let imported = import(&documents(&containers(gpus)), &options);
    let object = serde_json::to_value(&imported[0].objects[0]).unwrap();
    let resources = &object["spec"]["taskGroups"][0]["resources"];
    assert_eq!(*resources, serde_json::json!({"limits": {"cpu": "2"}}));
    // A sidecar has no GPUs, so amounts per GPU do not apply to it.
    let beside = format!("{gpus}, initContainers: [{{name: s, image: 'i:1'}}]");
    let problems = refused(&containers(&beside));
    assert_eq!(problems.len(), 2, "{problems:?}");
    let none = gpus.replace("gpu: 8", "gpu: 0");
    assert_eq!(refused(&containers(&none)).len(), 2);
}

#[test]
fn shared_memory_without_a_size_is_noted_for_unknown_memory() {
    let text = containers(
        "volumes: [{name: shm, emptyDir: {medium: Memory}}], \
         containers: [{name: c, image: 'i:1', volumeMounts: [{name: shm, mountPath: /dev/shm}], \
         resources: {limits: {nvidia.com/gpu: 8, cpu: 8}}}]",
    );
    let imported = import(&documents(&text), &ConversionOptions::default());
    assert_eq!(imported[0].problems, []);
    let mut notes = imported[0].notes.iter();
    let volume_note = notes
        .find(|note| note.path.ends_with("volumes[0]"))
        .unwrap();
    assert!(
        volume_note.instead.starts_with("set sharedMemory"),
        "{volume_note:?}"
    );
}

/// Objects that Trellis' own rules refuse are never returned.
#[test]
fn invalid_result_is_reported_and_not_returned() {
    let text = volcano(
        "{tasks: [{name: a-name-of-more-than-24-letters, template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}}]}",
    );
    assert_eq!(
        refused(&text),
        [
            ": becomes a TrainingJob that Trellis would refuse: spec.taskGroups[0].name: must be a DNS label of at most 24 characters: a-z, 0-9 and -, not starting or ending with -"
        ]
    );
}

#[test]
fn slices_of_kueue_state_one_size() {
    let job = |annotations: &str| {
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: a, \
             labels: {{kueue.x-k8s.io/queue-name: q}}}}, spec: {{template: {{\
             metadata: {{annotations: {{{annotations}}}}}, spec: {{restartPolicy: Never, \
             containers: [{{name: c, image: i, \
             resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}]}}}}}}}}"
        )
    };
    let path = "spec.template.metadata.annotations.kueue.x-k8s.io/podset-slice";
    assert_eq!(
        refused(&job("kueue.x-k8s.io/podset-slice-required-topology: rack")),
        [format!(
            "{path}-size: must be the number of pods of a slice: write one, such as \"16\""
        )]
    );
    assert_eq!(
        refused(&job("kueue.x-k8s.io/podset-slice-size: \"2\"")),
        [format!(
            "{path}-size: needs podset-slice-required-topology, as in Kueue: add it"
        )]
    );
    for (layers, message) in [
        (
            r#"[{"topology": "rack", "sizes": [1, 3]}]"#,
            "sizes has no counterpart, because all slices of a layer have the same size: write size",
        ),
        (
            r#"[{"topology": "rack"}]"#,
            "each layer must have size, the number of pods of a slice",
        ),
        (
            r#"[{"topology": "rack", "size": "many"}]"#,
            "each layer must have size, the number of pods of a slice",
        ),
        ("[]", "must have a layer: add one, or remove it"),
        (
            "rack",
            "must be a JSON list of layers, each with topology and size: expected value at line 1 \
             column 1",
        ),
    ] {
        assert_eq!(
            refused(&job(&format!(
                "kueue.x-k8s.io/podset-slice-required-topology-constraints: '{layers}'"
            ))),
            [format!("{path}-required-topology-constraints: {message}")]
        );
    }
    let both = refused(&job(
        "kueue.x-k8s.io/podset-slice-required-topology: rack, \
         kueue.x-k8s.io/podset-slice-size: \"2\", \
         kueue.x-k8s.io/podset-slice-required-topology-constraints: \
         '[{\"topology\": \"rack\", \"size\": 2}]'",
    ));
    assert_eq!(
        both,
        [format!(
            "{path}-required-topology-constraints: excludes podset-slice-required-topology, as in \
             Kueue: remove one of the two"
        )]
    );
    let uneven = refused(&job(
        "kueue.x-k8s.io/podset-slice-required-topology: rack, \
         kueue.x-k8s.io/podset-slice-size: \"2\"",
    ));
    let [uneven] = uneven.as_slice() else {
        panic!("{uneven:?}");
    };
    let start = format!(
        "{path}-size: becomes a TrainingJob that Trellis would refuse: \
         spec.taskGroups[0].topology: replicas must be a multiple"
    );
    assert!(uneven.starts_with(&start), "{uneven}");
    let wrong_level = refused(&job("kueue.x-k8s.io/podset-required-topology: rack/"));
    let [wrong_level] = wrong_level.as_slice() else {
        panic!("{wrong_level:?}");
    };
    assert!(
        wrong_level.starts_with(
            "spec.template.metadata.annotations.kueue.x-k8s.io/podset-required-topology: becomes"
        ),
        "{wrong_level}"
    );
}
